// Values of a GPU that are there before or after all that TensorFlow's stream has been given by then: what to wait for. The
// op that has such a value says so in every run, and whoever alone reads it asks.
#pragma once
#include <map>
#include <mutex>
#include <vector>

#include "cuda/cuda_driver.h"

namespace tf_stitch {

class Arrivals {
 public:
  // Outputs of regions that are there before the region's CUDA graph has ended, as gradients are while a backward pass
  // goes on.
  static Arrivals& Early() {
    static auto* early = new Arrivals;
    return *early;
  }

  // What is computed beside TensorFlow's stream, which does not wait for it, as sums of gradients are.
  static Arrivals& Late() {
    static auto* late = new Arrivals;
    return *late;
  }

  // Memory that is written again beside TensorFlow's stream: when it has been read.
  static Arrivals& Read() {
    static auto* read = new Arrivals;
    return *read;
  }

  // Of a value that is handed over; null: wait for what the stream has been given.
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

// An input of a region that is late.
struct LateInput {
  int input;
  CUevent event;  // which has been recorded

  bool operator==(const LateInput& other) const { return input == other.input && event == other.event; }
};

// Lets a stream of the current context wait for them.
inline std::string AwaitOnStream(CUstream stream, const std::vector<LateInput>& late) {
  std::string error;
  for (const LateInput& one : late) {
    if (error.empty()) error = CudaError("cuStreamWaitEvent", Cuda().StreamWaitEvent(stream, one.event, 0));
  }
  return error;
}

}  // namespace tf_stitch
