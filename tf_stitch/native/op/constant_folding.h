// Tells kernels that TensorFlow makes to fold constants from those of a graph that runs.
#pragma once

#include "absl/strings/match.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {

// Constant folding runs a kernel once, before those of the graph are made: Grappler without a function library
// (tensorflow/core/grappler/optimizers/evaluation_utils.cc), executors on a CPU device of its own, which belongs to no job
// (tensorflow/core/common_runtime/graph_runner.cc).
inline bool FoldsConstants(const tensorflow::OpKernelConstruction& construction) {
  return construction.function_library() == nullptr || !absl::StartsWith(construction.device()->name(), "/job:");
}

}  // namespace tf_stitch
