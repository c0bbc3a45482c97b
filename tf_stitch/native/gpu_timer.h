// Times work on a GPU's stream.
#pragma once
#include <functional>
#include <limits>

#include "cuda_driver.h"

namespace tf_stitch {

// Enqueues something into a stream; false if that fails.
using EnqueueOn = std::function<bool(CUstream)>;

constexpr float kNotMeasured = std::numeric_limits<float>::max();

// In the current context. Both ways wait for the stream.
class GpuTimer {
 public:
  GpuTimer();
  ~GpuTimer();
  GpuTimer(const GpuTimer&) = delete;
  GpuTimer& operator=(const GpuTimer&) = delete;

  // Milliseconds from one event to another around the work, or kNotMeasured. Work that is shorter than enqueueing it
  // seems to take as long as that.
  float Time(CUstream stream, const EnqueueOn& work) const;

  // Milliseconds of the work in a CUDA graph that holds it `repeats` times in a row, where the host has no part in it.
  float TimeInGraph(CUstream stream, int repeats, const EnqueueOn& work) const;

 private:
  CUevent start_ = nullptr, stop_ = nullptr;
};

}  // namespace tf_stitch
