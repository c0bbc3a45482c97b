// Times work on a GPU's stream.
#pragma once
#include <limits>

#include "cuda_driver.h"

namespace tf_stitch {

constexpr float kNotMeasured = std::numeric_limits<float>::infinity();

// Two events in the current context.
class GpuTimer {
 public:
  GpuTimer() {
    if (Cuda().EventCreate(&start_, 0) != 0) start_ = nullptr;
    if (Cuda().EventCreate(&stop_, 0) != 0) stop_ = nullptr;
  }
  ~GpuTimer() {
    if (start_ != nullptr) Cuda().EventDestroy(start_);
    if (stop_ != nullptr) Cuda().EventDestroy(stop_);
  }
  GpuTimer(const GpuTimer&) = delete;
  GpuTimer& operator=(const GpuTimer&) = delete;

  // Milliseconds that the stream spends on what `work` enqueues, or kNotMeasured; waits for it. Both functions say
  // whether they could. `ahead` keeps the stream busy while the host enqueues the work: without it, work that is
  // shorter than enqueueing it seems to take as long as that.
  template <typename Ahead, typename Work>
  float Time(CUstream stream, const Ahead& ahead, const Work& work) const {
    float milliseconds = 0;
    const bool good = start_ != nullptr && stop_ != nullptr && ahead() && Cuda().EventRecord(start_, stream) == 0 &&
                      work() && Cuda().EventRecord(stop_, stream) == 0 && Cuda().EventSynchronize(stop_) == 0 &&
                      Cuda().EventElapsedTime(&milliseconds, start_, stop_) == 0;
    return good ? milliseconds : kNotMeasured;
  }

 private:
  CUevent start_ = nullptr, stop_ = nullptr;
};

}  // namespace tf_stitch
