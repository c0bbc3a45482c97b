// How much memory a device has left.
#pragma once
#include <cstdint>

#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {

// Whether so many bytes more than the program has ever had are a quarter of what is left at most: of allocators that know.
inline bool HasRoomFor(tensorflow::OpKernelContext* ctx, std::int64_t bytes) {
  const auto stats = ctx->device()->GetAllocator({})->GetStats();
  return !stats || !stats->bytes_limit || 4 * bytes <= *stats->bytes_limit - stats->peak_bytes_in_use;
}

}  // namespace tf_stitch
