// StitchPeerSend and StitchPeerReceive: a value of one GPU for a region on another, as work in TensorFlow's streams.
// TensorFlow's copy between GPUs waits on the host until the sender has done all that it was given; a step of replicas,
// whose result is the mean of all losses, would end with its backward pass, and the next one begin behind it.
#include <string>

#include "op/registration.h"
#include "op/stream_order.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/framework/variant_tensor_data.h"

namespace tf_stitch {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

TFS_REGISTER_OP("StitchPeerSend")
    .Input("input: T")
    .Output("sent: variant")
    .Attr("T: {numbertype, bool}")  // what bytes can be copied of
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);

TFS_REGISTER_OP("StitchPeerReceive")
    .Input("sent: variant")
    .Output("output: T")
    .Attr("T: {numbertype, bool}")
    .SetShapeFn(tensorflow::shape_inference::UnknownShape);

// What goes from device to device in the host's memory. Holds the value until it is copied.
struct Sent {
  Tensor value;
  CUstream stream = nullptr;  // of the device that it is on

  std::string TypeName() const { return "tf_stitch::Sent"; }
  std::string DebugString() const { return "a value of another GPU"; }
  void Encode(tensorflow::VariantTensorData*) const {}
  bool Decode(const tensorflow::VariantTensorData&) { return false; }  // it does not leave the process
};

class PeerSendOp final : public tensorflow::OpKernel {
 public:
  explicit PeerSendOp(OpKernelConstruction* c) : OpKernel(c) {}

  void Compute(OpKernelContext* ctx) override {
    const absl::StatusOr<Placement> placement = Placement::Of(ctx, /*on_gpu=*/true);
    OP_REQUIRES_OK(ctx, placement.status());
    Tensor* sent = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &sent));
    sent->scalar<tensorflow::Variant>()() = Sent{ctx->input(0), placement->stream};
  }
};

class PeerReceiveOp final : public tensorflow::OpKernel {
 public:
  explicit PeerReceiveOp(OpKernelConstruction* c) : OpKernel(c) {}

  ~PeerReceiveOp() override {
    if (here_.event != nullptr) Cuda().EventDestroy(here_.event);
    if (there_.event != nullptr) Cuda().EventDestroy(there_.event);
  }

  void Compute(OpKernelContext* ctx) override {
    const Sent* sent = ctx->input(0).scalar<tensorflow::Variant>()().get<Sent>();
    OP_REQUIRES(ctx, sent != nullptr, absl::InvalidArgumentError("a value that no StitchPeerSend has sent"));
    const absl::StatusOr<Placement> placement = Placement::Of(ctx, /*on_gpu=*/true);
    OP_REQUIRES_OK(ctx, placement.status());
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, sent->value.shape(), &output));
    if (output->NumElements() != 0) OP_REQUIRES_OK(ctx, Copy(*sent, placement->stream, output));
  }

 private:
  // In the sender's stream, where the value's memory stays what it is; behind those that had the output's memory. The
  // receiver's stream goes on behind the copy.
  absl::Status Copy(const Sent& sent, CUstream stream, Tensor* output) {
    tensorflow::mutex_lock lock(mutex_);
    if (here_.event == nullptr) TF_RETURN_IF_ERROR(here_.Make(stream));
    if (there_.event == nullptr) TF_RETURN_IF_ERROR(there_.Make(sent.stream));
    TF_RETURN_IF_ERROR(Follow(sent.stream, there_.context, stream, here_));
    {
      const ScopedContext current(there_.context);
      TF_RETURN_IF_ERROR(CudaStatus("cuMemcpyPeerAsync", Cuda().MemcpyPeerAsync(
          DevicePointer(output->data()), here_.context, DevicePointer(sent.value.data()), there_.context,
          output->TotalBytes(), sent.stream)));
    }
    return Follow(stream, here_.context, sent.stream, there_);
  }

  tensorflow::mutex mutex_;
  StreamMark here_, there_;  // guarded by mutex_
};

TFS_REGISTER_KERNEL(Name("StitchPeerSend").Device(tensorflow::DEVICE_GPU).HostMemory("sent"), PeerSendOp);
TFS_REGISTER_KERNEL(Name("StitchPeerReceive").Device(tensorflow::DEVICE_GPU).HostMemory("sent"), PeerReceiveOp);

}  // namespace
}  // namespace tf_stitch
