// StitchAllReduce: the sum over the GPUs of one process, as work in TensorFlow's streams. TensorFlow's collective waits
// for the sum on the host before anything that follows begins, so that the devices wait for the host once a step.
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "cuda/nccl_library.h"
#include "op/local_rendezvous.h"
#include "op/placement.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

REGISTER_OP("StitchAllReduce")
    .Input("input: T")
    .Input("instance_key: int32")
    .Output("sum: T")
    .Attr("T: {half, bfloat16, float, double, int64}")
    .Attr("group: string")  // its members' names: the same for all
    .Attr("size: int >= 1")
    .Attr("rank: int >= 0")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape);

// The run of a function, the group, the instance.
using Key = std::tuple<const void*, std::string, std::int32_t>;

struct Part {
  OpKernelContext* ctx;
  tensorflow::AsyncOpKernel::DoneCallback done;
  tensorflow::CancellationToken token;
  CUstream stream;
  const Tensor* output;
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

absl::Status DeviceOf(CUstream stream, CUdevice* device) {
  CUcontext context = nullptr;
  TF_RETURN_IF_ERROR(CudaStatus("cuStreamGetCtx", Cuda().StreamGetCtx(stream, &context)));
  const ScopedContext current(context);
  return CudaStatus("cuCtxGetDevice", Cuda().CtxGetDevice(device));
}

absl::Status Sum(const std::vector<Part>& parts) {
  std::vector<NcclPart> gpus;
  const Tensor& first = parts.front().ctx->input(0);
  for (const Part& part : parts) {
    const Tensor& input = part.ctx->input(0);
    if (input.shape() != first.shape() || input.dtype() != first.dtype()) {
      return absl::InvalidArgumentError(absl::StrCat("the sum over devices of ", input.DebugString(0), " and ",
                                                     first.DebugString(0)));
    }
    NcclPart gpu{0, part.stream, input.data(), part.output->data()};
    TF_RETURN_IF_ERROR(DeviceOf(part.stream, &gpu.device));
    gpus.push_back(gpu);
  }
  const std::string error = SumOverGpus(gpus, static_cast<std::size_t>(first.NumElements()), NcclType(first.dtype()));
  if (error.empty()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("tf_stitch: ", error, "; TF_STITCH_SKIP='",
                                          parts.front().ctx->op_kernel().name(), "' leaves this sum to TensorFlow"));
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
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    Tensor* output = nullptr;
    OP_REQUIRES_OK_ASYNC(ctx, ctx->forward_input_or_allocate_output({0}, 0, ctx->input(0).shape(), &output), done);
    const absl::StatusOr<Placement> placement = Placement::Of(ctx, /*on_gpu=*/true);
    OP_REQUIRES_OK_ASYNC(ctx, placement.status(), done);
    const Tensor& instance = ctx->input(1);
    OP_REQUIRES_ASYNC(ctx, instance.NumElements() == 1,
                      absl::InvalidArgumentError("instance_key has to be one number"), done);
    const Key key(ctx->rendezvous(), group_, instance.flat<std::int32_t>()(0));
    Part part{ctx, done, tensorflow::CancellationManager::kInvalidToken, placement->stream, output};
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
};

REGISTER_KERNEL_BUILDER(Name("StitchAllReduce").Device(tensorflow::DEVICE_GPU).HostMemory("instance_key"), AllReduceOp);

}  // namespace
}  // namespace tf_stitch
