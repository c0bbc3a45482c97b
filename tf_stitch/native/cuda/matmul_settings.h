// TensorFlow's settings of matmuls on a GPU, as part of a key.
#pragma once
#include <cstdlib>
#include <string_view>

#include "op/shape_key.h"
#include "tensorflow/core/platform/tensor_float_32_utils.h"
#include "tensorflow/core/util/determinism.h"

namespace tf_stitch {

// NVIDIA's libraries follow this variable whatever they are told; so do our own kernels.
inline bool OverriddenTensorFloat32() {
  static const char* const value = std::getenv("NVIDIA_TF32_OVERRIDE");
  return value != nullptr && std::string_view(value) == "0";
}

inline void AddMatmulSettings(ShapeKey* key) {
  if (tsl::tensor_float_32_execution_enabled() && !OverriddenTensorFloat32()) key->AddFlag(ShapeKey::kTensorFloat32);
  if (tensorflow::OpDeterminismRequired()) key->AddFlag(ShapeKey::kDeterministic);
}

}  // namespace tf_stitch
