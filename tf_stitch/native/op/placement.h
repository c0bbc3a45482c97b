// Where a kernel runs: the CPU, or TensorFlow's own stream of a GPU.
#pragma once
#include <cstring>

#include "cuda/cuda_driver.h"
#include "op/allocation_faults.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/statusor.h"
#include "xla/stream_executor/stream.h"

namespace tf_stitch {

struct Placement {
  bool on_gpu = false;
  CUstream stream = nullptr;

  static absl::StatusOr<Placement> Of(tensorflow::OpKernelContext* ctx, bool on_gpu) {
    if (!on_gpu) return Placement{};
    if (!Cuda().loaded) return absl::FailedPreconditionError("tf_stitch: libcuda.so.1 could not be loaded");
    auto* device = ctx->op_device_context();
    if (device == nullptr || device->stream() == nullptr) return absl::InternalError("tf_stitch: no GPU stream");
    return Placement{true, static_cast<CUstream>(device->stream()->platform_specific_handle().stream)};
  }
};

inline absl::Status CudaStatus(const char* call, CUresult code) {
  if (code == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("tf_stitch: ", CudaError(call, code)));
}

// Memory of `placement`, also for an op that runs on a GPU while this is the CPU.
inline absl::Status AllocateTemp(tensorflow::OpKernelContext* ctx, const Placement& placement, tensorflow::DataType type,
                                 const tensorflow::TensorShape& shape, tensorflow::Tensor* tensor) {
  TF_RETURN_IF_ERROR(PlantedFault());
  tensorflow::AllocatorAttributes attributes;
  attributes.set_on_host(!placement.on_gpu);
  return ctx->allocate_temp(type, shape, tensor, attributes);
}

// Copies within the memory of `placement`, in stream order on a GPU.
inline absl::Status CopyBytes(const Placement& placement, void* target, const void* source, std::size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (placement.on_gpu) {
    return CudaStatus("cuMemcpyDtoDAsync", Cuda().MemcpyDtoDAsync(DevicePointer(target), DevicePointer(source), bytes,
                                                                 placement.stream));
  }
  std::memcpy(target, source, bytes);
  return absl::OkStatus();
}

inline absl::Status FillBytes(const Placement& placement, void* target, int value, std::size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (placement.on_gpu) {
    return CudaStatus("cuMemsetD8Async", Cuda().MemsetD8Async(DevicePointer(target), static_cast<unsigned char>(value),
                                                              bytes, placement.stream));
  }
  std::memset(target, value, bytes);
  return absl::OkStatus();
}

}  // namespace tf_stitch
