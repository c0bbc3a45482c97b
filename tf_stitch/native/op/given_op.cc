// StitchGiven and StitchTaken: a number in the host's memory, which says that what it waits for has been given to its
// device. It stands for a control edge between GPUs, which in TensorFlow is a copy that is made when the first one has
// done all it was given. Both are stateful: TensorFlow would fold a constant, and make a control edge of an op that hands
// a number on to nobody who reads it.
#include "op/registration.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {
namespace {

TFS_REGISTER_OP("StitchGiven")
    .Output("given: int32")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

TFS_REGISTER_OP("StitchTaken")
    .Input("given: int32")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs);

class GivenOp final : public tensorflow::OpKernel {
 public:
  explicit GivenOp(tensorflow::OpKernelConstruction* c) : OpKernel(c) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    tensorflow::Tensor* given = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &given));
    given->scalar<std::int32_t>()() = 0;
  }
};

// What follows on the other device waits for this op.
class TakenOp final : public tensorflow::OpKernel {
 public:
  explicit TakenOp(tensorflow::OpKernelConstruction* c) : OpKernel(c) {}

  void Compute(tensorflow::OpKernelContext*) override {}
};

TFS_REGISTER_KERNEL(Name("StitchGiven").Device(tensorflow::DEVICE_CPU), GivenOp);
TFS_REGISTER_KERNEL(Name("StitchGiven").Device(tensorflow::DEVICE_GPU).HostMemory("given"), GivenOp);
TFS_REGISTER_KERNEL(Name("StitchTaken").Device(tensorflow::DEVICE_CPU), TakenOp);
TFS_REGISTER_KERNEL(Name("StitchTaken").Device(tensorflow::DEVICE_GPU).HostMemory("given"), TakenOp);

}  // namespace
}  // namespace tf_stitch
