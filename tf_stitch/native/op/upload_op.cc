// StitchUpload: a value of the host's memory, for a region on a GPU. The copy is work in TensorFlow's stream as any
// other: nobody waits for it, neither for what the stream was given before.
#include <algorithm>
#include <cstring>
#include <deque>

#include "op/placement.h"
#include "op/registration.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

constexpr std::size_t kPiece = 16 << 20;  // bytes of a copy
constexpr std::size_t kPieces = 4;        // under way: beyond, the host waits for the oldest

TFS_REGISTER_OP("StitchUpload")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: {numbertype, bool}")  // what bytes can be copied of
    .Attr("region: int = 0")  // that was the first to want it
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape);

class UploadOp final : public tensorflow::OpKernel {
 public:
  explicit UploadOp(tensorflow::OpKernelConstruction* c) : OpKernel(c) {}

  ~UploadOp() override {
    if (pieces_.empty()) return;
    const ScopedContext current(context_);
    for (const Piece& piece : pieces_) {
      Cuda().EventSynchronize(piece.done);  // its memory is read
      Cuda().EventDestroy(piece.done);
    }
  }

  void Compute(OpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, Copy(ctx)); }

 private:
  // Memory that the device copies from by itself, and what tells when it has.
  struct Piece {
    Tensor memory;
    CUevent done = nullptr;
  };

  absl::Status Copy(OpKernelContext* ctx) {
    const Tensor& input = ctx->input(0);
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, input.shape(), &output));
    TF_ASSIGN_OR_RETURN(const Placement placement, Placement::Of(ctx, /*on_gpu=*/true));
    tensorflow::mutex_lock lock(mutex_);
    if (context_ == nullptr) {
      TF_RETURN_IF_ERROR(CudaStatus("cuStreamGetCtx", Cuda().StreamGetCtx(placement.stream, &context_)));
    }
    const ScopedContext current(context_);
    const auto* const source = static_cast<const char*>(input.data());
    for (std::size_t at = 0; at < input.TotalBytes(); at += kPiece) {
      const std::size_t bytes = std::min(kPiece, input.TotalBytes() - at);
      TF_RETURN_IF_ERROR(TakePiece(ctx, bytes));
      Piece& piece = pieces_.back();
      std::memcpy(piece.memory.data(), source + at, bytes);
      TF_RETURN_IF_ERROR(CudaStatus(
          "cuMemcpyHtoDAsync",
          Cuda().MemcpyHtoDAsync(DevicePointer(output->data()) + at, piece.memory.data(), bytes, placement.stream)));
      TF_RETURN_IF_ERROR(CudaStatus("cuEventRecord", Cuda().EventRecord(piece.done, placement.stream)));
    }
    return absl::OkStatus();
  }

  // The last piece has so many bytes that nobody reads any more.
  absl::Status TakePiece(OpKernelContext* ctx, std::size_t bytes) {
    const bool another = pieces_.empty() ||
                         (pieces_.size() < kPieces && Cuda().EventQuery(pieces_.front().done) == kCudaNotReady);
    if (another) {
      Piece piece;
      TF_RETURN_IF_ERROR(CudaStatus("cuEventCreate", Cuda().EventCreate(&piece.done, kEventWithoutTime)));
      pieces_.push_back(std::move(piece));
    } else {
      TF_RETURN_IF_ERROR(CudaStatus("cuEventSynchronize", Cuda().EventSynchronize(pieces_.front().done)));
      std::rotate(pieces_.begin(), pieces_.begin() + 1, pieces_.end());
    }
    Piece& piece = pieces_.back();
    if (piece.memory.TotalBytes() >= bytes) return absl::OkStatus();
    tensorflow::AllocatorAttributes pinned;
    pinned.set_on_host(true);
    pinned.set_gpu_compatible(true);
    return ctx->allocate_temp(tensorflow::DT_UINT8, {static_cast<std::int64_t>(bytes)}, &piece.memory, pinned);
  }

  tensorflow::mutex mutex_;
  // Guarded by mutex_:
  CUcontext context_ = nullptr;
  std::deque<Piece> pieces_;  // the one that was given to the device first comes first
};

TFS_REGISTER_KERNEL(Name("StitchUpload").Device(tensorflow::DEVICE_GPU).HostMemory("input"), UploadOp);

}  // namespace
}  // namespace tf_stitch
