// One run of a region through Python, where its own nodes cannot run natively: values staged to host memory, Python
// called, results taken back.
#pragma once
#include <optional>

#include "op/callbacks.h"
#include "op/placement.h"
#include "op/region_runtime.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "op/variables.h"

namespace tf_stitch {

class HostFallback final : public FallbackCall {
 public:
  HostFallback(tensorflow::OpKernelContext* ctx, const Placement& placement, int device_ordinal)
      : ctx_(ctx), placement_(placement) {
    device = device_ordinal;
    outputs_.resize(ctx->num_outputs());
    for (int i = 0; i < ctx->num_outputs(); ++i) output_types.push_back(ctx->expected_output_dtype(i));
  }

  // `inputs`, then `variables`: alive until this object is gone.
  absl::Status Stage(const std::vector<tensorflow::Tensor>& inputs, const std::vector<tensorflow::Tensor>& variables) {
    num_inputs = static_cast<int>(inputs.size());
    state_.resize(variables.size());
    if (placement_.on_gpu) {
      TF_RETURN_IF_ERROR(CudaStatus("cuStreamSynchronize", Cuda().StreamSynchronize(placement_.stream)));
    }
    for (const auto* tensors : {&inputs, &variables}) {
      for (const tensorflow::Tensor& tensor : *tensors) TF_RETURN_IF_ERROR(StageOne(tensor));
    }
    return absl::OkStatus();
  }

  void* Output(int index, std::vector<std::int64_t> dims) override {
    return Allocate(&outputs_, index, index < ctx_->num_outputs() ? ctx_->expected_output_dtype(index) : 0, dims);
  }

  void* State(int variable, std::vector<std::int64_t> dims) override {
    const bool known = 0 <= variable && variable < static_cast<int>(state_.size());
    return Allocate(&state_, variable, known ? values[num_inputs + variable].type : 0, dims);
  }

  // After Python has returned: hands the outputs over to TensorFlow.
  absl::Status SetOutputs() {
    for (int i = 0; i < ctx_->num_outputs(); ++i) {
      if (!outputs_[i]) return absl::InternalError(absl::StrCat("tf_stitch: the fallback left output ", i, " unset"));
      tensorflow::TensorValue stale = ctx_->release_output(i);  // of the attempt that failed
      delete stale.tensor;
      if (!placement_.on_gpu) {
        ctx_->set_output(i, *outputs_[i]);
        continue;
      }
      tensorflow::Tensor* output = nullptr;
      TF_RETURN_IF_ERROR(ctx_->allocate_output(i, outputs_[i]->shape(), &output));
      TF_RETURN_IF_ERROR(Upload(*outputs_[i], output));
    }
    return absl::OkStatus();
  }

  // The new value of a variable in the memory of the placement, or nothing when it keeps its value.
  absl::StatusOr<std::optional<tensorflow::Tensor>> NewState(int variable) {
    const std::optional<tensorflow::Tensor>& host = state_[variable];
    if (!host || !placement_.on_gpu) return host;
    tensorflow::Tensor value;
    TF_RETURN_IF_ERROR(ctx_->allocate_temp(host->dtype(), host->shape(), &value));
    TF_RETURN_IF_ERROR(Upload(*host, &value));
    return std::optional<tensorflow::Tensor>(value);
  }

 private:
  using HostTensors = std::vector<std::optional<tensorflow::Tensor>>;

  absl::Status StageOne(const tensorflow::Tensor& tensor) {
    tensorflow::Tensor host = tensor;
    if (placement_.on_gpu) {
      host = tensorflow::Tensor(tensor.dtype(), tensor.shape());
      if (host.TotalBytes() != 0) {
        TF_RETURN_IF_ERROR(
            CudaStatus("cuMemcpyDtoH", Cuda().MemcpyDtoH(host.data(), DevicePointer(tensor.data()), host.TotalBytes())));
      }
    }
    std::vector<std::int64_t> dims(tensor.dims());
    for (int axis = 0; axis < tensor.dims(); ++axis) dims[axis] = tensor.dim_size(axis);
    values.push_back({host.data(), tensor.dtype(), std::move(dims)});
    staged_.push_back(std::move(host));
    return absl::OkStatus();
  }

  void* Allocate(HostTensors* tensors, int index, int type, const std::vector<std::int64_t>& dims) {
    tensorflow::TensorShape shape;
    if (index < 0 || index >= static_cast<int>(tensors->size())) return nullptr;
    if (!tensorflow::TensorShape::BuildTensorShape(dims, &shape).ok()) return nullptr;
    std::optional<tensorflow::Tensor>& slot = (*tensors)[index];
    slot = tensorflow::Tensor(static_cast<tensorflow::DataType>(type), shape);
    // An empty tensor has no buffer, but null means failure to the caller.
    return shape.num_elements() == 0 ? static_cast<void*>(&slot) : slot->data();
  }

  absl::Status Upload(const tensorflow::Tensor& host, tensorflow::Tensor* device_tensor) {
    if (host.TotalBytes() == 0) return absl::OkStatus();
    TF_RETURN_IF_ERROR(CudaStatus("cuMemcpyHtoDAsync",
                                  Cuda().MemcpyHtoDAsync(DevicePointer(device_tensor->data()), host.data(),
                                                         host.TotalBytes(), placement_.stream)));
    // The host buffer dies with this object.
    return CudaStatus("cuStreamSynchronize", Cuda().StreamSynchronize(placement_.stream));
  }

  tensorflow::OpKernelContext* ctx_;
  const Placement placement_;
  std::vector<tensorflow::Tensor> staged_;
  HostTensors outputs_;
  HostTensors state_;
};

// Values of variables are read and written back each under one lock, as TensorFlow's own read, compute and assign
// nodes would. Takes unlocked variables.
inline absl::Status RunThroughPython(tensorflow::OpKernelContext* ctx, const Placement& placement,
                                     RegionRuntime* runtime, int num_inputs, VariableSet* variables,
                                     const std::string& reason) {
  std::optional<ScopedContext> current;
  if (placement.on_gpu) current.emplace(runtime->context());
  const int count = variables->size();
  std::vector<tensorflow::Tensor> inputs, values(count);
  for (int i = 0; i < num_inputs; ++i) inputs.push_back(ctx->input(i));
  variables->Lock(/*exclusive=*/false);
  TF_RETURN_IF_ERROR(variables->CheckValues(ctx, num_inputs));
  for (int i = 0; i < count; ++i) TF_RETURN_IF_ERROR(variables->Snapshot(ctx, placement, i, &values[i]));
  variables->Unlock();

  HostFallback call(ctx, placement, runtime->device());
  call.reason = reason;
  for (int i = 0; i < count; ++i) call.same_as.push_back(variables->First(i));
  TF_RETURN_IF_ERROR(call.Stage(inputs, values));
  {
    const CallbackGate<Callbacks>::Entry entry(&Gate());
    if (entry.get() == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(ctx->op_kernel().name(), ": ", kNoCallbacks));
    }
    const int code = InItsOwnThread([&] { return entry.get()->fallback(runtime->region(), &call); });
    if (code == kNoThread) {
      return absl::ResourceExhaustedError(
          absl::StrCat(ctx->op_kernel().name(), ": there is no thread to be had to run TensorFlow's own ops in, which "
                       "stand in for kernels", reason.empty() ? "" : ": ", reason));
    }
    if (code != 0) {
      return absl::Status(static_cast<absl::StatusCode>(call.error_code), call.error);
    }
  }
  runtime->fallbacks.fetch_add(1, std::memory_order_relaxed);
  TF_RETURN_IF_ERROR(call.SetOutputs());
  std::vector<std::optional<tensorflow::Tensor>> updates;
  for (int i = 0; i < count; ++i) {
    TF_ASSIGN_OR_RETURN(std::optional<tensorflow::Tensor> update, call.NewState(i));
    updates.push_back(std::move(update));
  }
  variables->Lock(/*exclusive=*/true);
  for (int i = 0; i < count; ++i) {
    if (updates[i]) variables->Assign(i, *updates[i]);
  }
  variables->Unlock();
  return absl::OkStatus();
}

}  // namespace tf_stitch
