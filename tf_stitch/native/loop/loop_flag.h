// What a loop's condition gives: whether there is another iteration.
#pragma once
#include "op/placement.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {

class LoopFlag {
 public:
  // Of a condition that runs on `placement`, which outlives the flag. The context of a GPU is current as long.
  explicit LoopFlag(const Placement& placement) : placement_(placement) {}

  ~LoopFlag() {
    if (copied_ != nullptr) Cuda().EventDestroy(copied_);
  }
  LoopFlag(const LoopFlag&) = delete;
  LoopFlag& operator=(const LoopFlag&) = delete;

  absl::Status Allocate(tensorflow::OpKernelContext* ctx) {
    const tensorflow::TensorShape scalar;
    TF_RETURN_IF_ERROR(AllocateTemp(ctx, placement_, tensorflow::DT_BOOL, scalar, &result_));
    if (!placement_.on_gpu) return absl::OkStatus();
    tensorflow::AllocatorAttributes pinned;
    pinned.set_on_host(true);
    pinned.set_gpu_compatible(true);
    TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_BOOL, scalar, &copy_, pinned));
    return CudaStatus("cuEventCreate", Cuda().EventCreate(&copied_, kEventWithoutTime));
  }

  // Where the condition leaves it.
  void* target() const { return result_.data(); }

  // The condition has run, or is enqueued: has the host told on a GPU.
  absl::Status Send() const {
    if (!placement_.on_gpu) return absl::OkStatus();
    TF_RETURN_IF_ERROR(CudaStatus("cuMemcpyDtoHAsync",
                                  Cuda().MemcpyDtoHAsync(copy_.data(), DevicePointer(result_.data()), sizeof(bool),
                                                         placement_.stream)));
    return CudaStatus("cuEventRecord", Cuda().EventRecord(copied_, placement_.stream));
  }

  // What was sent; waits for it, and for nothing that was enqueued since.
  absl::StatusOr<bool> Receive() const {
    if (!placement_.on_gpu) return *static_cast<const bool*>(result_.data());
    TF_RETURN_IF_ERROR(CudaStatus("cuEventSynchronize", Cuda().EventSynchronize(copied_)));
    return *static_cast<const bool*>(copy_.data());
  }

 private:
  const Placement& placement_;
  tensorflow::Tensor result_;
  tensorflow::Tensor copy_;  // in host memory, of a result on a GPU
  CUevent copied_ = nullptr;
};

}  // namespace tf_stitch
