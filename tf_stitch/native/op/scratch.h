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

  // `kept`: of the stream; null: it is allocated for this call. What outlives the call is allocated before: then it gets
  // the same addresses more often.
  absl::Status Allocate(tensorflow::OpKernelContext* ctx, const Placement& placement, const Executable& executable,
                        KeptTensors* kept, Buffers* buffers) {
    if (kept != nullptr && TakeKept(ctx, executable, kept, buffers)) return absl::OkStatus();
    TF_RETURN_IF_ERROR(arena_.Allocate(ctx, placement, executable, buffers));
    return placement.on_gpu ? workspace_.Allocate(ctx, executable, buffers) : absl::OkStatus();
  }

 private:
  bool TakeKept(tensorflow::OpKernelContext* ctx, const Executable& executable, KeptTensors* kept, Buffers* buffers) {
    const auto workspace = static_cast<std::int64_t>(executable.WorkspaceBytes());
    std::vector<std::int64_t> bytes{workspace};
    bytes.insert(bytes.end(), executable.arena.begin(), executable.arena.end());
    const auto* const pieces = kept->Take(
        bytes,
        [ctx](std::int64_t size, tensorflow::Tensor* piece) {
          tensorflow::AllocationAttributes once;  // else TensorFlow waits ten seconds for memory
          once.retry_on_failure = false;
          return ctx->allocate_temp(tensorflow::DT_UINT8, tensorflow::TensorShape({size}), piece, {}, once).ok();
        },
        [ctx](std::int64_t sum) { return HasRoomFor(ctx, sum); });
    if (pieces == nullptr) return false;
    taken_ = kept;
    buffers->workspace = static_cast<char*>((*pieces)[0].data());
    buffers->workspace_bytes = static_cast<std::size_t>(workspace);
    for (std::size_t i = 1; i < bytes.size(); ++i) buffers->arena.push_back((*pieces)[i].data());
    return true;
  }

  Arena arena_;
  Workspace workspace_;
  KeptTensors* taken_ = nullptr;
};

}  // namespace tf_stitch
