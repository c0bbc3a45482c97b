// StitchGiven: a number in the host's memory, which says that what it waits for has been given to its device. It stands
// for a control edge between GPUs, which in TensorFlow is a copy that is made when the first one has done all it was
// given. Stateful: a constant would be folded into what reads it, and the control edge be back.
#include "op/registration.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {
namespace {

TFS_REGISTER_OP("StitchGiven")
    .Output("given: int32")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

class GivenOp final : public tensorflow::OpKernel {
 public:
  explicit GivenOp(tensorflow::OpKernelConstruction* c) : OpKernel(c) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    tensorflow::Tensor* given = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &given));
    given->scalar<std::int32_t>()() = 0;
  }
};

TFS_REGISTER_KERNEL(Name("StitchGiven").Device(tensorflow::DEVICE_CPU), GivenOp);
TFS_REGISTER_KERNEL(Name("StitchGiven").Device(tensorflow::DEVICE_GPU).HostMemory("given"), GivenOp);

}  // namespace
}  // namespace tf_stitch
