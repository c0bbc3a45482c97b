// A region by its own TensorFlow nodes in place of its kernels: because they are faster, to find out whether they are,
// or because the kernels cannot run.
#pragma once
#include <optional>
#include <string>

#include "op/fallback.h"
#include "op/original_function.h"
#include "op/region_runtime.h"
#include "op/variables.h"

namespace tf_stitch {

// One call of a region's op.
struct RegionCall {
  tensorflow::OpKernelContext* ctx;
  const Placement& placement;
  RegionRuntime* runtime;
  VariableSet* variables;  // locked; what runs the region's own nodes leaves them unlocked
  int num_inputs;          // of the op that are the region's, variables last; others may follow
};

class OriginalForm {
 public:
  explicit OriginalForm(bool on_gpu) : function_(on_gpu) {}

  // A call for which the guard wants this form. Nothing if the kernels have to run after all.
  std::optional<absl::Status> Run(const RegionCall& call, const Slot& slot, const Guard::Turn& turn) {
    call.variables->Unlock();
    const OriginalNodes* nodes = call.runtime->Original("", &OriginalNodes::Parse);
    bool ran = false;
    const absl::Status status =
        nodes == nullptr ? absl::UnavailableError("no nodes") : function_.Run(call.ctx, call.num_inputs, *nodes, &ran);
    slot.guard.End(call.placement.stream, turn, status.ok());
    if (status.ok()) call.runtime->originals.fetch_add(1, std::memory_order_relaxed);
    if (status.ok() || (ran && !turn.sampled)) return status;
    // An experiment must not fail the step: its memory may be short, for one. But half of the variables may be updated.
    slot.guard.KeepStitched();
    if (ran && call.variables->size() != 0) return status;
    return std::nullopt;
  }

  // What becomes of a call whose kernels ended with `status`. `can_fall_back`: nothing that a second attempt reads was
  // overwritten, and it may do better.
  absl::Status AfterKernels(const RegionCall& call, const Slot& slot, const Guard::Turn& turn,
                            const absl::Status& status, bool can_fall_back) {
    slot.guard.End(call.placement.stream, turn, status.ok());
    if (turn.last) {
      call.variables->Unlock();  // Release waits for calls that run this form, and those lock variables
      function_.Release();
    }
    if (status.ok()) call.runtime->runs.fetch_add(1, std::memory_order_relaxed);
    if (status.ok() || !can_fall_back) return status;
    return Fallback(call, std::string(status.message()));
  }

  // `reason`: why the kernels cannot run; "": they are not built yet.
  absl::Status Fallback(const RegionCall& call, std::string reason) {
    call.variables->Unlock();
    if (const OriginalNodes* nodes = call.runtime->Original(reason, &OriginalNodes::Parse)) {
      bool ran = false;
      const absl::Status status = function_.Run(call.ctx, call.num_inputs, *nodes, &ran);
      if (status.ok()) call.runtime->fallbacks.fetch_add(1, std::memory_order_relaxed);
      if (ran) return status;
      reason = absl::StrCat(reason, " (through Python, for: ", status.message(), ")");
    }
    return RunThroughPython(call.ctx, call.placement, call.runtime, call.num_inputs, call.variables, reason);
  }

 private:
  OriginalFunction function_;
};

}  // namespace tf_stitch
