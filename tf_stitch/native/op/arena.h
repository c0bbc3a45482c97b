// Memory in which the steps of an executable leave values for others, for the time of a call.
#pragma once
#include "op/buffers.h"
#include "op/placement.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {

class Arena {
 public:
  absl::Status Allocate(tensorflow::OpKernelContext* ctx, const Placement& placement, const Executable& executable,
                        Buffers* buffers) {
    segments_.resize(executable.arena.size());
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      const tensorflow::TensorShape bytes({executable.arena[i]});
      TF_RETURN_IF_ERROR(AllocateTemp(ctx, placement, tensorflow::DT_UINT8, bytes, &segments_[i]));
      buffers->arena.push_back(segments_[i].data());
    }
    return absl::OkStatus();
  }

 private:
  absl::InlinedVector<tensorflow::Tensor, 8> segments_;
};

}  // namespace tf_stitch
