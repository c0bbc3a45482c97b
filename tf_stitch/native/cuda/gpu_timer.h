// Times short work on a GPU, to choose between kernels.
#pragma once
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "cuda/cuda_driver.h"

namespace tf_stitch {

// Kernels of a few microseconds are shorter than what the host needs to launch them, so the stream is kept busy in the
// meantime: memory of twice the cache's size is filled. That also empties the cache.
class GpuTimer {
 public:
  using Memory = std::pair<const void*, std::size_t>;  // address, bytes

  // Of work on `stream`, whose context is current, that finds `hot` in the cache, as far as it has room, and whatever
  // else it reads in device memory.
  GpuTimer(CUstream stream, std::vector<Memory> hot);
  ~GpuTimer();
  GpuTimer(const GpuTimer&) = delete;
  GpuTimer& operator=(const GpuTimer&) = delete;

  // Median of a few runs in milliseconds, infinity if one failed. Waits for the stream. Where the device has no memory
  // left to fill, what is timed includes some of the host's work.
  float Time(const std::function<bool()>& enqueue) const;

 private:
  bool FillCache() const;

  const CUstream stream_;
  const std::vector<Memory> hot_;
  CUevent start_ = nullptr, stop_ = nullptr;
  CUdeviceptr scratch_ = 0;
  std::size_t scratch_bytes_ = 0;
};

// Bytes of the second-level cache of the current context's device; 0 if unknown.
std::size_t CacheBytes();

}  // namespace tf_stitch
