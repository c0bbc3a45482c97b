// StitchHandle: the handle of a variable that a function holds, where it would be an argument; and StitchHold, which a
// program calls before, with the handles. (plugin/held_variables.py)
#include "op/held_handles.h"
#include "op/registration.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_stitch {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::ResourceHandle;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;

// That of VarHandleOp, which has the same attributes. It lies in TensorFlow's library: what shape_inference.h has of
// handles is inline, and takes symbols of absl that some of TensorFlow's wheels do not export.
absl::Status HandleShape(InferenceContext* c) {
  const tensorflow::OpRegistrationData* variable = nullptr;
  const tensorflow::OpRegistryInterface& ops = *tensorflow::OpRegistry::Global();
  TF_RETURN_IF_ERROR(ops.LookUp("VarHandleOp", &variable));
  return variable->shape_inference_fn(c);
}

// The names of attribute and output are those of VarHandleOp, for which it stands.
TFS_REGISTER_OP("StitchHandle")
    .Output("resource: resource")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .SetIsStateful()
    .SetShapeFn(HandleShape);

// Numbers the handles from `first` on; not where `held` is false, for one is not a variable that lives as long as its
// handles. An attribute would be part of what TensorFlow knows kernels by, and keeps them for.
TFS_REGISTER_OP("StitchHold")
    .Input("handles: N * resource")
    .Input("first: int64")
    .Output("held: bool")
    .Attr("N: int >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

class HandleOp final : public tensorflow::OpKernel {
 public:
  explicit HandleOp(OpKernelConstruction* c) : OpKernel(c), handle_(tensorflow::DT_RESOURCE, TensorShape({})) {
    std::int64_t number = 0;
    OP_REQUIRES_OK(c, c->GetAttr("_number", &number));
    const absl::StatusOr<ResourceHandle> held = HeldHandles::Global().Find(number);
    OP_REQUIRES_OK(c, held.status());
    handle_.scalar<ResourceHandle>()() = *held;
  }

  void Compute(OpKernelContext* ctx) override { ctx->set_output(0, handle_); }
  bool IsExpensive() override { return false; }

 private:
  Tensor handle_;
};

class HoldOp final : public tensorflow::OpKernel {
 public:
  explicit HoldOp(OpKernelConstruction* c) : OpKernel(c) {}

  void Compute(OpKernelContext* ctx) override {
    Tensor* held = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &held));
    const int count = ctx->num_inputs() - 1;
    const std::int64_t first = ctx->input(count).scalar<std::int64_t>()();
    bool& all = held->scalar<bool>()() = true;
    for (int i = 0; i < count; ++i) {
      const ResourceHandle& handle = tensorflow::HandleFromInput(ctx, i);
      all = all && handle.IsRefCounting() && handle.GetResource<tensorflow::Var>().ok();
    }
    for (int i = 0; all && i < count; ++i) HeldHandles::Global().Add(first + i, tensorflow::HandleFromInput(ctx, i));
  }
};

TFS_REGISTER_KERNEL(Name("StitchHandle").Device(tensorflow::DEVICE_CPU), HandleOp);
TFS_REGISTER_KERNEL(Name("StitchHandle").Device(tensorflow::DEVICE_GPU).HostMemory("resource"), HandleOp);
TFS_REGISTER_KERNEL(Name("StitchHold").Device(tensorflow::DEVICE_CPU), HoldOp);
TFS_REGISTER_KERNEL(Name("StitchHold")
                            .Device(tensorflow::DEVICE_GPU)
                            .HostMemory("handles")
                            .HostMemory("first")
                            .HostMemory("held"),
                        HoldOp);

}  // namespace
}  // namespace tf_stitch

// The function that held so many handles, from the first one's number on, is gone.
extern "C" __attribute__((visibility("default"))) void tfs_release_handles(std::int64_t first, std::int64_t count) {
  tf_stitch::HeldHandles::Global().Remove(first, count);
}
