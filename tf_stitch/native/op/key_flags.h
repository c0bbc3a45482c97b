// The first word of a shape key.
#pragma once
#include <cstdint>

namespace tf_stitch {

struct KeyFlags {
  static constexpr std::int64_t kAllAligned = 1;     // every data pointer is a multiple of kAlignment
  static constexpr std::int64_t kTensorFloat32 = 2;  // TensorFlow's settings of matmuls
  static constexpr std::int64_t kDeterministic = 4;
  static constexpr std::uintptr_t kAlignment = 64;
};

}  // namespace tf_stitch
