// StitchAllReduce: the sum over the GPUs of one process, as work that TensorFlow's streams wait for. TensorFlow's
// collective waits for the sum on the host before anything that follows begins, so that the devices wait for the host
// once a step. Sums have a stream of their own on each device, beside TensorFlow's: what a region has computed early is
// summed while the rest of the region runs.
#include "cuda/nccl_library.h"
#include "op/meeting_op.h"
#include "op/registration.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace tf_stitch {
namespace {

TFS_REGISTER_OP("StitchAllReduce")
    .Input("input: T")
    .Input("instance_key: int32")
    .Output("sum: T")
    .TFS_MEETING_ATTRIBUTES
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape);

int NcclType(tensorflow::DataType type) {
  switch (type) {
    case tensorflow::DT_HALF: return kNcclHalf;
    case tensorflow::DT_BFLOAT16: return kNcclBfloat16;
    case tensorflow::DT_FLOAT: return kNcclFloat;
    case tensorflow::DT_DOUBLE: return kNcclDouble;
    default: return kNcclInt64;
  }
}

class AllReduceOp final : public MeetingOp {
 public:
  using MeetingOp::MeetingOp;

 private:
  absl::Status Allocate(tensorflow::OpKernelContext* ctx, Output* output) override {
    tensorflow::Tensor* sum = nullptr;
    TF_RETURN_IF_ERROR(ctx->forward_input_or_allocate_output({0}, 0, ctx->input(0).shape(), &sum));
    *output = {sum->data(), sum->data() != ctx->input(0).data()};
    return absl::OkStatus();
  }

  absl::Status Give(const std::vector<Part>& parts, const std::vector<const SideStream*>& sides) override {
    std::vector<NcclPart> gpus;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      gpus.push_back({sides[i]->device, sides[i]->stream, parts[i].input(), const_cast<void*>(parts[i].output.data)});
    }
    const tensorflow::Tensor& first = parts.front().ctx->input(0);
    const std::string error = SumOverGpus(gpus, static_cast<std::size_t>(first.NumElements()), NcclType(first.dtype()));
    return error.empty() ? absl::OkStatus() : absl::InternalError(absl::StrCat("tf_stitch: ", error));
  }
};

TFS_REGISTER_KERNEL(Name("StitchAllReduce").Device(tensorflow::DEVICE_GPU).HostMemory("instance_key"), AllReduceOp);

}  // namespace
}  // namespace tf_stitch
