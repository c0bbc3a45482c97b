#include "op/meeting_op.h"

namespace tf_stitch {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// The run of a function, the group, the instance, the bucket, the kind of op.
using Key = std::tuple<const void*, std::string, std::int32_t, std::int64_t, std::string>;

LocalRendezvous<Key, Part>& Rendezvous() {
  static auto* rendezvous = new LocalRendezvous<Key, Part>;
  return *rendezvous;
}

// One order on all streams: else two sums could wait for each other.
std::mutex& OneAtATime() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

absl::Status MakeSideStream(CUstream beside, SideStream* made) {
  TF_RETURN_IF_ERROR(made->mark.Make(beside));
  const ScopedContext current(made->mark.context);
  TF_RETURN_IF_ERROR(CudaStatus("cuCtxGetDevice", Cuda().CtxGetDevice(&made->device)));
  // A sum takes a few blocks, which other devices wait for: kernels of the backward pass should let them in. (What a sum
  // takes without a priority was not measured.)
  return CudaStatus("cuStreamCreateWithPriority",
                    Cuda().StreamCreateWithPriority(&made->stream, kStreamNonBlocking, kFirstOfAllStreams));
}

// Of the device of a stream. Under OneAtATime().
absl::StatusOr<const SideStream*> SideStreamOf(CUstream stream) {
  static auto* sides = new std::map<CUcontext, SideStream>;
  CUcontext context = nullptr;
  TF_RETURN_IF_ERROR(CudaStatus("cuStreamGetCtx", Cuda().StreamGetCtx(stream, &context)));
  SideStream& side = (*sides)[context];
  if (side.stream == nullptr) TF_RETURN_IF_ERROR(MakeSideStream(stream, &side));
  return &side;
}

// Lets a side stream wait for a part's input, and for who had the memory of a fresh output before.
absl::Status Await(const Part& part, const SideStream& side) {
  const CUevent ready = part.early ? Arrivals::Early().Take(part.input()) : nullptr;
  if (ready == nullptr || part.output.fresh) return Follow(side.stream, side.mark.context, part.stream, side.mark);
  const ScopedContext current(side.mark.context);
  return CudaStatus("cuStreamWaitEvent", Cuda().StreamWaitEvent(side.stream, ready, 0));
}

// Says that the output is there when the side stream has come so far.
absl::Status Deliver(const Part& part, const SideStream& side) {
  if (part.late == nullptr) return Follow(part.stream, side.mark.context, side.stream, side.mark);
  const ScopedContext current(side.mark.context);
  if (*part.late == nullptr) {
    TF_RETURN_IF_ERROR(CudaStatus("cuEventCreate", Cuda().EventCreate(part.late, kEventWithoutTime)));
  }
  TF_RETURN_IF_ERROR(CudaStatus("cuEventRecord", Cuda().EventRecord(*part.late, side.stream)));
  Arrivals::Late().Publish(part.output.data, *part.late);
  return absl::OkStatus();
}

// What a node was called before its sum was cut into buckets (graph/passes/sum_buckets.py).
std::string UsersNode(const std::string& name) { return name.substr(0, name.rfind("/tfs_bucket_")); }

void Finish(const std::vector<Part>& parts, const absl::Status& status) {
  for (const Part& part : parts) {
    auto* const cancellation = part.ctx->cancellation_manager();
    if (cancellation != nullptr) cancellation->TryDeregisterCallback(part.token);
    part.ctx->SetStatus(status);
  }
  for (const Part& part : parts) part.done();
}

}  // namespace

MeetingOp::MeetingOp(tensorflow::OpKernelConstruction* c) : AsyncOpKernel(c) {
  OP_REQUIRES_OK(c, c->GetAttr("group", &group_));
  OP_REQUIRES_OK(c, c->GetAttr("size", &size_));
  OP_REQUIRES_OK(c, c->GetAttr("rank", &rank_));
  OP_REQUIRES_OK(c, c->GetAttr("bucket", &bucket_));
  OP_REQUIRES_OK(c, c->GetAttr("early", &early_));
  OP_REQUIRES_OK(c, c->GetAttr("late", &late_));
}

void MeetingOp::ComputeAsync(OpKernelContext* ctx, DoneCallback done) {
  Output output{};
  OP_REQUIRES_OK_ASYNC(ctx, Allocate(ctx, &output), done);
  const absl::StatusOr<Placement> placement = Placement::Of(ctx, /*on_gpu=*/true);
  OP_REQUIRES_OK_ASYNC(ctx, placement.status(), done);
  const Tensor& instance = ctx->input(1);
  OP_REQUIRES_ASYNC(ctx, instance.NumElements() == 1,
                    absl::InvalidArgumentError("instance_key has to be one number"), done);
  const Key key(ctx->rendezvous(), group_, instance.flat<std::int32_t>()(0), bucket_, std::string(type_string()));
  Part part{ctx, done, tensorflow::CancellationManager::kInvalidToken, placement->stream, output, early_,
            late_ ? &arrived_ : nullptr};
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
    Finish(parts, Meet(parts));
  }
}

absl::Status MeetingOp::Meet(const std::vector<Part>& parts) {
  const Tensor& first = parts.front().ctx->input(0);
  for (const Part& part : parts) {
    const Tensor& input = part.ctx->input(0);
    if (input.shape() != first.shape() || input.dtype() != first.dtype()) {
      return absl::InvalidArgumentError(absl::StrCat("the sum over devices of ", input.DebugString(0), " and ",
                                                     first.DebugString(0)));
    }
  }
  return GiveAll(parts);
}

absl::Status MeetingOp::GiveAll(const std::vector<Part>& parts) {
  const std::lock_guard<std::mutex> lock(OneAtATime());
  std::vector<const SideStream*> sides;
  for (const Part& part : parts) {
    TF_ASSIGN_OR_RETURN(const SideStream* side, SideStreamOf(part.stream));
    TF_RETURN_IF_ERROR(Await(part, *side));
    sides.push_back(side);
  }
  const absl::Status given = Give(parts, sides);
  // Also behind what failed: a part of it may be under way.
  for (std::size_t i = 0; i < parts.size(); ++i) TF_RETURN_IF_ERROR(Deliver(parts[i], *sides[i]));
  if (given.ok()) return given;
  return absl::InternalError(absl::StrCat(given.message(), "; TF_STITCH_SKIP='",
                                          UsersNode(parts.front().ctx->op_kernel().name()),
                                          "' leaves this sum to TensorFlow"));
}

}  // namespace tf_stitch
