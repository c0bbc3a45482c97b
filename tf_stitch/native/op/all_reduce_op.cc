// StitchAllReduce: the sum over the GPUs of one process, as work that TensorFlow's streams wait for. TensorFlow's
// collective waits for the sum on the host before anything that follows begins, so that the devices wait for the host
// once a step. Sums have a stream of their own on each device, beside TensorFlow's: what a region has computed early is
// summed while the rest of the region runs.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "cuda/nccl_library.h"
#include "op/local_rendezvous.h"
#include "op/ready_outputs.h"
#include "op/registration.h"
#include "op/stream_order.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

TFS_REGISTER_OP("StitchAllReduce")
    .Input("input: T")
    .Input("instance_key: int32")
    .Output("sum: T")
    .Attr("T: {half, bfloat16, float, double, int64}")
    .Attr("group: string")  // its members' names: the same for all
    .Attr("size: int >= 1")
    .Attr("rank: int >= 0")
    .Attr("bucket: int = 0")  // which of the sums that have one instance_key
    .Attr("early: bool = false")  // the input may be there before the stream has come to its end (op/ready_outputs.h)
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape);

// The run of a function, the group, the instance, the bucket.
using Key = std::tuple<const void*, std::string, std::int32_t, std::int64_t>;

struct Part {
  OpKernelContext* ctx;
  tensorflow::AsyncOpKernel::DoneCallback done;
  tensorflow::CancellationToken token;
  CUstream stream;
  const Tensor* output;
  bool early;

  const void* input() const { return ctx->input(0).data(); }
};

LocalRendezvous<Key, Part>& Rendezvous() {
  static auto* rendezvous = new LocalRendezvous<Key, Part>;
  return *rendezvous;
}

int NcclType(tensorflow::DataType type) {
  switch (type) {
    case tensorflow::DT_HALF: return kNcclHalf;
    case tensorflow::DT_BFLOAT16: return kNcclBfloat16;
    case tensorflow::DT_FLOAT: return kNcclFloat;
    case tensorflow::DT_DOUBLE: return kNcclDouble;
    default: return kNcclInt64;
  }
}

// Where a device's sums run. For the life of the process.
struct SideStream {
  CUdevice device = 0;
  CUstream stream = nullptr;
  StreamMark mark;  // of both streams of the device
};

absl::Status MakeSideStream(CUstream beside, SideStream* made) {
  TF_RETURN_IF_ERROR(made->mark.Make(beside));
  const ScopedContext current(made->mark.context);
  TF_RETURN_IF_ERROR(CudaStatus("cuCtxGetDevice", Cuda().CtxGetDevice(&made->device)));
  // A sum takes a few blocks, which other devices wait for: kernels of the backward pass should let them in. (What a sum
  // takes without a priority was not measured.)
  return CudaStatus("cuStreamCreateWithPriority",
                    Cuda().StreamCreateWithPriority(&made->stream, kStreamNonBlocking, kFirstOfAllStreams));
}

// Lets a side stream wait for a part's input, and for who had the memory of its output before.
absl::Status Await(const Part& part, const SideStream& side) {
  const CUevent ready = part.early ? ReadyOutputs::Global().Take(part.input()) : nullptr;
  if (ready == nullptr || part.output->data() != part.input()) {
    return Follow(side.stream, side.mark.context, part.stream, side.mark);
  }
  const ScopedContext current(side.mark.context);
  return CudaStatus("cuStreamWaitEvent", Cuda().StreamWaitEvent(side.stream, ready, 0));
}

// What a node was called before its sum was cut into buckets (graph/passes/sum_buckets.py).
std::string UsersNode(const std::string& name) { return name.substr(0, name.rfind("/tfs_bucket_")); }

class Sums {
 public:
  static Sums& Global() {
    static auto* sums = new Sums;
    return *sums;
  }

  absl::Status Give(const std::vector<Part>& parts) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<NcclPart> gpus;
    std::vector<const SideStream*> sides;
    for (const Part& part : parts) {
      CUcontext context = nullptr;
      TF_RETURN_IF_ERROR(CudaStatus("cuStreamGetCtx", Cuda().StreamGetCtx(part.stream, &context)));
      SideStream& side = sides_[context];
      if (side.stream == nullptr) TF_RETURN_IF_ERROR(MakeSideStream(part.stream, &side));
      TF_RETURN_IF_ERROR(Await(part, side));
      gpus.push_back({side.device, side.stream, part.input(), part.output->data()});
      sides.push_back(&side);
    }
    const Tensor& first = parts.front().ctx->input(0);
    const std::string error = SumOverGpus(gpus, static_cast<std::size_t>(first.NumElements()), NcclType(first.dtype()));
    // Also behind what failed: a part of it may be under way.
    for (std::size_t i = 0; i < parts.size(); ++i) {
      TF_RETURN_IF_ERROR(Follow(parts[i].stream, sides[i]->mark.context, sides[i]->stream, sides[i]->mark));
    }
    if (error.empty()) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("tf_stitch: ", error, "; TF_STITCH_SKIP='",
                                            UsersNode(parts.front().ctx->op_kernel().name()),
                                            "' leaves this sum to TensorFlow"));
  }

 private:
  std::mutex mutex_;
  std::map<CUcontext, SideStream> sides_;
};

absl::Status Sum(const std::vector<Part>& parts) {
  const Tensor& first = parts.front().ctx->input(0);
  for (const Part& part : parts) {
    const Tensor& input = part.ctx->input(0);
    if (input.shape() != first.shape() || input.dtype() != first.dtype()) {
      return absl::InvalidArgumentError(absl::StrCat("the sum over devices of ", input.DebugString(0), " and ",
                                                     first.DebugString(0)));
    }
  }
  return Sums::Global().Give(parts);
}

void Finish(const std::vector<Part>& parts, const absl::Status& status) {
  for (const Part& part : parts) {
    auto* const cancellation = part.ctx->cancellation_manager();
    if (cancellation != nullptr) cancellation->TryDeregisterCallback(part.token);
    part.ctx->SetStatus(status);
  }
  for (const Part& part : parts) part.done();
}

class AllReduceOp final : public tensorflow::AsyncOpKernel {
 public:
  explicit AllReduceOp(tensorflow::OpKernelConstruction* c) : AsyncOpKernel(c) {
    OP_REQUIRES_OK(c, c->GetAttr("group", &group_));
    OP_REQUIRES_OK(c, c->GetAttr("size", &size_));
    OP_REQUIRES_OK(c, c->GetAttr("rank", &rank_));
    OP_REQUIRES_OK(c, c->GetAttr("bucket", &bucket_));
    OP_REQUIRES_OK(c, c->GetAttr("early", &early_));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    Tensor* output = nullptr;
    OP_REQUIRES_OK_ASYNC(ctx, ctx->forward_input_or_allocate_output({0}, 0, ctx->input(0).shape(), &output), done);
    const absl::StatusOr<Placement> placement = Placement::Of(ctx, /*on_gpu=*/true);
    OP_REQUIRES_OK_ASYNC(ctx, placement.status(), done);
    const Tensor& instance = ctx->input(1);
    OP_REQUIRES_ASYNC(ctx, instance.NumElements() == 1,
                      absl::InvalidArgumentError("instance_key has to be one number"), done);
    const Key key(ctx->rendezvous(), group_, instance.flat<std::int32_t>()(0), bucket_);
    Part part{ctx, done, tensorflow::CancellationManager::kInvalidToken, placement->stream, output, early_};
    const auto ticket = std::make_shared<Ticket>();
    if (tensorflow::CancellationManager* const cancellation = ctx->cancellation_manager(); cancellation != nullptr) {
      part.token = cancellation->get_cancellation_token();
      const bool registered = cancellation->RegisterCallback(part.token, [key, ticket] {
        Finish(Rendezvous().Leave(key, ticket), absl::CancelledError("the step was cancelled"));
      });
      OP_REQUIRES_ASYNC(ctx, registered, absl::CancelledError("the step was cancelled"), done);
    }
    std::string error;
    const std::vector<Part> parts = Rendezvous().Join(key, rank_, size_, ticket, part, &error);
    if (!error.empty()) {
      error = absl::StrCat("no sum over devices: ", error);
      Finish({part}, ticket->left ? absl::CancelledError(error) : absl::InvalidArgumentError(error));
    } else if (!parts.empty()) {
      Finish(parts, Sum(parts));
    }
  }

 private:
  std::string group_;
  int size_ = 0, rank_ = 0;
  std::int64_t bucket_ = 0;
  bool early_ = false;
};

TFS_REGISTER_KERNEL(Name("StitchAllReduce").Device(tensorflow::DEVICE_GPU).HostMemory("instance_key"), AllReduceOp);

}  // namespace
}  // namespace tf_stitch
