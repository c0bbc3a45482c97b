// TensorFlow's executor of one thread, which the wheels of TensorFlow 2.16 to 2.18 hold without its header.
//
// The declarations are weak: where a TensorFlow does not hold the functions, a library that refers to them can be loaded
// all the same, and SingleThreadedExecutorFound says no. Where the header is there, the compiler compares.
#ifndef TF_STITCH_NATIVE_OP_SINGLE_THREADED_EXECUTOR_H_
#define TF_STITCH_NATIVE_OP_SINGLE_THREADED_EXECUTOR_H_

#include "tensorflow/core/common_runtime/executor.h"
#include "tensorflow/core/common_runtime/local_executor_params.h"
#if __has_include("tensorflow/core/common_runtime/single_threaded_executor.h")
#include "tensorflow/core/common_runtime/single_threaded_executor.h"
#endif

namespace tensorflow {

__attribute__((weak)) absl::Status NewSingleThreadedExecutor(const LocalExecutorParams& params, const Graph& graph,
                                                             Executor** executor);
__attribute__((weak)) absl::Status ValidateOpIsSafeForSyncExecution(const Node& node,
                                                                    bool allow_control_flow_sync_execution);

}  // namespace tensorflow

namespace tf_stitch {

inline bool SingleThreadedExecutorFound() {
  return &tensorflow::NewSingleThreadedExecutor != nullptr && &tensorflow::ValidateOpIsSafeForSyncExecution != nullptr;
}

}  // namespace tf_stitch

#endif  // TF_STITCH_NATIVE_OP_SINGLE_THREADED_EXECUTOR_H_
