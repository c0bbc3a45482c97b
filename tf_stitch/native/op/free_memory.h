// How much memory a device has, and has left.
#pragma once
#include <cstdint>

#include "op/device_memory.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {

inline DeviceMemory MemoryOf(tensorflow::OpKernelContext* ctx) {
  const auto stats = ctx->device()->GetAllocator({})->GetStats();
  if (!stats || !stats->bytes_limit || *stats->bytes_limit <= 0) return {};
  return {stats->bytes_in_use, *stats->bytes_limit};
}

// Whether so many bytes more than the program has ever had are a quarter of what is left at most: of allocators that know.
inline bool HasRoomFor(tensorflow::OpKernelContext* ctx, std::int64_t bytes) {
  const auto stats = ctx->device()->GetAllocator({})->GetStats();
  return !stats || !stats->bytes_limit || 4 * bytes <= *stats->bytes_limit - stats->peak_bytes_in_use;
}

}  // namespace tf_stitch
