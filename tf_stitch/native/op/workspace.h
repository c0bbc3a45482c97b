// Scratch memory of an executable's matmuls on a GPU, for the time of a call.
#pragma once
#include "op/allocation_faults.h"
#include "op/buffers.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {

class Workspace {
 public:
  // As much as the next run needs: it may be more than the last one did, until every matmul is settled.
  absl::Status Allocate(tensorflow::OpKernelContext* ctx, const Executable& executable, Buffers* buffers) {
    const std::size_t bytes = executable.WorkspaceBytes();
    if (bytes <= buffers->workspace_bytes) return absl::OkStatus();
    TF_RETURN_IF_ERROR(PlantedFault());
    const tensorflow::TensorShape shape({static_cast<std::int64_t>(bytes)});
    TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_UINT8, shape, &tensor_));
    buffers->workspace = static_cast<char*>(tensor_.data());
    buffers->workspace_bytes = bytes;
    return absl::OkStatus();
  }

 private:
  tensorflow::Tensor tensor_;
};

}  // namespace tf_stitch
