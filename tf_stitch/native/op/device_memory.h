// How much memory a device has, as its allocator counts.
#pragma once
#include <cstdint>

namespace tf_stitch {

// Bytes that have been handed out, and that may be at most; 0 and 0 where the allocator does not know.
struct DeviceMemory {
  std::int64_t in_use = 0;
  std::int64_t limit = 0;

  bool known() const { return limit != 0; }

  // Bytes that may still be handed out; negative where nobody knows.
  std::int64_t free() const { return known() ? (limit > in_use ? limit - in_use : 0) : -1; }

  // Whether twice so many bytes are free, as far as anybody knows.
  bool Fits(std::int64_t bytes) const { return !known() || 2 * bytes <= limit - in_use; }
};

}  // namespace tf_stitch
