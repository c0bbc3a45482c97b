// StitchExchange: two GPUs of one process give each other a tensor. Their copy engines do that beside kernels, which lose
// nothing by it, where NCCL's sum of two takes multiprocessors from them: of two H200s matmuls took 1.43 times as long
// beside a sum, 1.00 beside copies at 380 GB/s each way (benchmarks/replicas.md). Who reads both adds them.
#include <mutex>

#include "op/meeting_op.h"
#include "op/registration.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace tf_stitch {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

TFS_REGISTER_OP("StitchExchange")
    .Input("input: T")
    .Input("instance_key: int32")
    .Output("of_the_other: T")
    .TFS_MEETING_ATTRIBUTES
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape);

class ExchangeOp final : public MeetingOp {
 public:
  explicit ExchangeOp(tensorflow::OpKernelConstruction* c) : MeetingOp(c) {
    int size = 0;
    OP_REQUIRES_OK(c, c->GetAttr("size", &size));
    OP_REQUIRES(c, size == 2, absl::InvalidArgumentError(absl::StrCat("an exchange of ", size, " members")));
  }

 private:
  // Memory of its own, of which TensorFlow's allocator would say that it is free when the stream has come to where the
  // step is: behind all of the backward pass. What nobody holds any more is used again.
  absl::Status Allocate(OpKernelContext* ctx, Output* output) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Tensor& input = ctx->input(0);
    for (const Tensor& one : received_) {
      if (one.RefCountIsOne() && one.shape() == input.shape()) {
        ctx->set_output(0, one);
        *output = {one.data(), false};
        return absl::OkStatus();
      }
    }
    if (received_.size() >= kMost) received_.clear();  // of sizes that come no more
    Tensor made;
    TF_RETURN_IF_ERROR(ctx->allocate_temp(input.dtype(), input.shape(), &made));
    ctx->set_output(0, made);
    *output = {made.data(), true};
    if (made.NumElements() != 0) received_.push_back(std::move(made));
    return absl::OkStatus();
  }

  absl::Status Give(const std::vector<Part>& parts, const std::vector<const SideStream*>& sides) override {
    for (int i = 0; i < 2; ++i) TF_RETURN_IF_ERROR(AwaitReaders(*sides[i], parts[1 - i], *sides[1 - i]));
    for (int i = 0; i < 2; ++i) TF_RETURN_IF_ERROR(Send(parts[i], *sides[i], parts[1 - i], *sides[1 - i]));
    // Each device goes on when both copies have ended: what it sent may be overwritten, too.
    for (int i = 0; i < 2; ++i) {
      TF_RETURN_IF_ERROR(Follow(sides[i]->stream, sides[i]->mark.context, sides[1 - i]->stream, sides[1 - i]->mark));
    }
    return absl::OkStatus();
  }

  // Lets the sender wait for who has read what the receiver got before, in the same memory.
  static absl::Status AwaitReaders(const SideStream& sender, const Part& receiver, const SideStream& its) {
    const CUevent read = receiver.output.fresh ? nullptr : Arrivals::Read().Take(receiver.output.data);
    if (read == nullptr) return Follow(sender.stream, sender.mark.context, receiver.stream, its.mark);
    const ScopedContext current(sender.mark.context);
    return CudaStatus("cuStreamWaitEvent", Cuda().StreamWaitEvent(sender.stream, read, 0));
  }

  static absl::Status Send(const Part& sender, const SideStream& from, const Part& receiver, const SideStream& to) {
    const std::size_t bytes = sender.ctx->input(0).TotalBytes();
    if (bytes == 0) return absl::OkStatus();
    const ScopedContext current(from.mark.context);
    return CudaStatus("cuMemcpyPeerAsync", Cuda().MemcpyPeerAsync(
        DevicePointer(receiver.output.data), to.mark.context, DevicePointer(sender.input()), from.mark.context, bytes,
        from.stream));
  }

  static constexpr std::size_t kMost = 4;
  std::mutex mutex_;
  std::vector<Tensor> received_;  // guarded by mutex_
};

TFS_REGISTER_KERNEL(Name("StitchExchange").Device(tensorflow::DEVICE_GPU).HostMemory("instance_key"), ExchangeOp);

}  // namespace
}  // namespace tf_stitch
