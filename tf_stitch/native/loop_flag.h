// What a loop's condition gives: whether there is another iteration.
#pragma once
#include "placement.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {

class LoopFlag {
 public:
  // Of a condition that runs on `placement`, which outlives the flag.
  explicit LoopFlag(const Placement& placement) : placement_(placement) {}

  absl::Status Allocate(tensorflow::OpKernelContext* ctx) {
    const tensorflow::TensorShape scalar;
    TF_RETURN_IF_ERROR(AllocateTemp(ctx, placement_, tensorflow::DT_BOOL, scalar, &result_));
    if (!placement_.on_gpu) return absl::OkStatus();
    tensorflow::AllocatorAttributes pinned;
    pinned.set_on_host(true);
    pinned.set_gpu_compatible(true);
    return ctx->allocate_temp(tensorflow::DT_BOOL, scalar, &copy_, pinned);
  }

  // Where the condition leaves it.
  void* target() const { return result_.data(); }

  // After the condition has run. On a GPU, whose context is current, it waits for the stream.
  absl::StatusOr<bool> Read() const {
    if (!placement_.on_gpu) return *static_cast<const bool*>(result_.data());
    TF_RETURN_IF_ERROR(CudaStatus("cuMemcpyDtoHAsync",
                                  Cuda().MemcpyDtoHAsync(copy_.data(), DevicePointer(result_.data()), sizeof(bool),
                                                         placement_.stream)));
    TF_RETURN_IF_ERROR(CudaStatus("cuStreamSynchronize", Cuda().StreamSynchronize(placement_.stream)));
    return *static_cast<const bool*>(copy_.data());
  }

 private:
  const Placement& placement_;
  tensorflow::Tensor result_;
  tensorflow::Tensor copy_;  // in host memory, of a result on a GPU
};

}  // namespace tf_stitch
