// Memory of a call of an executable: its arena, and scratch memory of library calls. On a GPU it may be kept (kept_memory.h).
#pragma once
#include "op/arena.h"
#include "op/free_memory.h"
#include "op/kept_memory.h"
#include "op/workspace.h"

namespace tf_stitch {

using KeptTensors = KeptMemory<tensorflow::Tensor>;

class Scratch {
 public:
  ~Scratch() {
    if (taken_ != nullptr) taken_->Return();
  }

  // `kept`: of the stream; null: it is allocated for this call, unless it fits into what `others` keep (null: nobody
  // does). Both outlive this. What outlives the call is allocated before: then it gets the same addresses more often.
  absl::Status Allocate(tensorflow::OpKernelContext* ctx, const Placement& placement, const Executable& executable,
                        KeptTensors* kept, KeptTensors* others, Buffers* buffers) {
    const std::size_t workspace = placement.on_gpu ? executable.WorkspaceBytes() : 0;  // it may change
    if (kept != nullptr && TakeKept(ctx, executable, workspace, kept, buffers)) return absl::OkStatus();
    if (others != nullptr && LieIn(others->Borrow(Bytes(executable, workspace)), executable, workspace, others, buffers)) {
      return absl::OkStatus();
    }
    TF_RETURN_IF_ERROR(arena_.Allocate(ctx, placement, executable, buffers));
    return placement.on_gpu ? workspace_.Allocate(ctx, executable, buffers) : absl::OkStatus();
  }

 private:
  static std::int64_t Bytes(const Executable& executable, std::size_t workspace) {
    std::int64_t bytes = Aligned(static_cast<std::int64_t>(workspace));
    for (const std::int64_t segment : executable.arena) bytes += Aligned(segment);
    return bytes;
  }

  bool TakeKept(tensorflow::OpKernelContext* ctx, const Executable& executable, std::size_t workspace, KeptTensors* kept,
                Buffers* buffers) {
    const tensorflow::Tensor* const piece = kept->Take(
        Bytes(executable, workspace),
        [ctx](std::int64_t size, tensorflow::Tensor* memory) {
          tensorflow::AllocationAttributes once;  // else TensorFlow waits ten seconds for memory
          once.retry_on_failure = false;
          return ctx->allocate_temp(tensorflow::DT_UINT8, tensorflow::TensorShape({size}), memory, {}, once).ok();
        },
        [ctx](std::int64_t size) { return HasRoomFor(ctx, size); });
    return LieIn(piece, executable, workspace, kept, buffers);
  }

  // The arena's segments lie in the piece one behind the other, scratch memory of library calls in front of them. Not,
  // and false, if the piece is null.
  bool LieIn(const tensorflow::Tensor* piece, const Executable& executable, std::size_t workspace, KeptTensors* of,
             Buffers* buffers) {
    if (piece == nullptr) return false;
    taken_ = of;
    buffers->workspace = static_cast<char*>(piece->data());
    buffers->workspace_bytes = workspace;
    char* next = buffers->workspace + Aligned(static_cast<std::int64_t>(workspace));
    for (const std::int64_t segment : executable.arena) {
      buffers->arena.push_back(next);
      next += Aligned(segment);
    }
    return true;
  }

  static std::int64_t Aligned(std::int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

  static constexpr std::int64_t kAlign = 256;  // as TensorFlow's allocators align on GPUs
  Arena arena_;
  Workspace workspace_;
  KeptTensors* taken_ = nullptr;
};

}  // namespace tf_stitch
