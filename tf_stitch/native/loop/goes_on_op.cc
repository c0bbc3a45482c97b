// StitchGoesOn: hands on the condition of a loop that TensorFlow runs in place of a StitchWhile, which Ctrl-C ends, too.
#include "loop/interruption.h"
#include "op/registration.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {
namespace {

// Stateful: an executor that merges or precomputes what has no state would ask once.
TFS_REGISTER_OP("StitchGoesOn")
    .Input("condition: bool")
    .Output("same: bool")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape);

class GoesOnOp final : public tensorflow::OpKernel {
 public:
  explicit GoesOnOp(tensorflow::OpKernelConstruction* c) : OpKernel(c) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, GoesOn());
    ctx->set_output(0, ctx->input(0));
  }
  bool IsExpensive() override { return false; }
};

TFS_REGISTER_KERNEL(Name("StitchGoesOn").Device(tensorflow::DEVICE_CPU), GoesOnOp);
TFS_REGISTER_KERNEL(
    Name("StitchGoesOn").Device(tensorflow::DEVICE_GPU).HostMemory("condition").HostMemory("same"), GoesOnOp);

}  // namespace
}  // namespace tf_stitch
