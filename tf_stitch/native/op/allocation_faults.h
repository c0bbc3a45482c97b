// Allocations that tests let fail.
#pragma once
#include <atomic>
#include <cstdint>

#include "absl/status/status.h"

namespace tf_stitch {

// How many allocations of regions' kernels still succeed before one fails, once; negative: all do.
inline std::atomic<std::int64_t>& AllocationsToFailure() {
  static std::atomic<std::int64_t> left{-1};
  return left;
}

inline absl::Status PlantedFault() {
  std::atomic<std::int64_t>& left = AllocationsToFailure();
  if (left.load(std::memory_order_relaxed) < 0 || left.fetch_sub(1) != 0) return absl::OkStatus();
  return absl::ResourceExhaustedError("a test let this allocation fail");
}

}  // namespace tf_stitch
