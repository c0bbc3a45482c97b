// Outputs of regions that are there before the region's CUDA graph has ended, as gradients are while a backward pass goes
// on: what to wait for. A region says so in every run, and whoever alone reads the output asks.
#pragma once
#include <map>
#include <mutex>

#include "cuda/cuda_driver.h"

namespace tf_stitch {

class ReadyOutputs {
 public:
  static ReadyOutputs& Global() {
    static auto* outputs = new ReadyOutputs;
    return *outputs;
  }

  // Of an output that a region hands over: `event` stands for its last use there; null: whatever the stream has been given.
  void Publish(const void* data, CUevent event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (event == nullptr) {
      events_.erase(data);
    } else {
      events_[data] = event;
    }
  }

  // The event, once; null: wait for the stream.
  CUevent Take(const void* data) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = events_.find(data);
    if (found == events_.end()) return nullptr;
    const CUevent event = found->second;
    events_.erase(found);
    return event;
  }

 private:
  std::mutex mutex_;
  std::map<const void*, CUevent> events_;
};

}  // namespace tf_stitch
