#include "cuda/gpu_timer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace tf_stitch {
namespace {

constexpr int kRuns = 3;
constexpr int kFills = 2;  // tens of microseconds: the host enqueues a run in less

}  // namespace

std::size_t CacheBytes() {
  CUdevice device = 0;
  int bytes = 0;
  const bool known =
      Cuda().CtxGetDevice(&device) == 0 && Cuda().DeviceGetAttribute(&bytes, kDeviceCacheBytes, device) == 0;
  return known ? static_cast<std::size_t>(bytes) : 0;
}

GpuTimer::GpuTimer(CUstream stream, std::vector<Memory> hot) : stream_(stream), hot_(std::move(hot)) {
  if (Cuda().EventCreate(&start_, 0) != 0) start_ = nullptr;
  if (Cuda().EventCreate(&stop_, 0) != 0) stop_ = nullptr;
  const std::size_t wanted = 2 * CacheBytes();
  if (wanted != 0 && Cuda().MemAlloc(&scratch_, wanted) == 0) {
    scratch_bytes_ = wanted;
  } else {
    scratch_ = 0;
  }
}

GpuTimer::~GpuTimer() {
  if (start_ != nullptr) Cuda().EventDestroy(start_);
  if (stop_ != nullptr) Cuda().EventDestroy(stop_);
  if (scratch_ != 0) Cuda().MemFree(scratch_);
}

bool GpuTimer::FillCache() const {
  if (scratch_ == 0) return true;
  for (int i = 0; i < kFills; ++i) {
    if (Cuda().MemsetD8Async(scratch_, 0, scratch_bytes_, stream_) != 0) return false;
  }
  for (const auto& [address, bytes] : hot_) {
    const std::size_t part = std::min(bytes, scratch_bytes_ / 2);
    if (Cuda().MemcpyDtoDAsync(scratch_, DevicePointer(address), part, stream_) != 0) return false;
  }
  return true;
}

float GpuTimer::Time(const std::function<bool()>& enqueue) const {
  constexpr float kFailed = std::numeric_limits<float>::infinity();
  if (start_ == nullptr || stop_ == nullptr || !enqueue()) return kFailed;  // the first run loads the kernel
  std::array<float, kRuns> milliseconds;
  for (float& one : milliseconds) {
    const bool good = FillCache() && Cuda().EventRecord(start_, stream_) == 0 && enqueue() &&
                      Cuda().EventRecord(stop_, stream_) == 0 && Cuda().EventSynchronize(stop_) == 0 &&
                      Cuda().EventElapsedTime(&one, start_, stop_) == 0;
    if (!good) return kFailed;
  }
  std::nth_element(milliseconds.begin(), milliseconds.begin() + kRuns / 2, milliseconds.end());
  return milliseconds[kRuns / 2];
}

}  // namespace tf_stitch
