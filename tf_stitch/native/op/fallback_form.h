// A region by its fallback subgraph, its own TensorFlow nodes: in place of its kernels, because the nodes are faster or the
// kernels cannot run; or before them, to find out which is faster.
#pragma once
#include <optional>
#include <string>

#include "op/python_fallback.h"
#include "op/named_error.h"
#include "op/fallback_function.h"
#include "op/region_runtime.h"
#include "op/scratch.h"
#include "op/variable_copies.h"
#include "op/variables.h"

namespace tf_stitch {

// One call of a region's op.
struct RegionCall {
  tensorflow::OpKernelContext* ctx;
  const Placement& placement;
  RegionRuntime* runtime;
  VariableSet* variables;  // locked; what runs the region's own nodes leaves them unlocked
  int num_inputs;          // of the op that are the region's, variables last; others may follow
  const std::vector<tensorflow::Tensor>* kept = nullptr;  // handles of the variables, where they are no inputs of the op

  // As the region's nodes have them.
  std::vector<tensorflow::Tensor> Inputs() const {
    std::vector<tensorflow::Tensor> inputs;
    for (int i = 0; i < num_inputs; ++i) inputs.push_back(ctx->input(i));
    if (kept != nullptr) inputs.insert(inputs.end(), kept->begin(), kept->end());
    return inputs;
  }

  // The region's nodes, which run for this reason.
  std::shared_ptr<const FallbackSubgraph> Nodes(const std::string& reason) const {
    tensorflow::FunctionLibraryRuntime* library = ctx->function_library();
    tensorflow::Device* device = library == nullptr ? nullptr : library->device();
    return runtime->Fallback(reason, [device](const std::string& definition, bool on_gpu) {
      return FallbackSubgraph::Parse(definition, device, on_gpu);
    });
  }

  int NumValues() const { return kept == nullptr ? num_inputs - variables->size() : num_inputs; }
};

class FallbackForm {
 public:
  explicit FallbackForm(bool on_gpu) : function_(on_gpu), naming_(on_gpu, /*naming=*/true) {}

  // A call of a region whose nodes are faster. Nothing if the kernels have to run after all.
  std::optional<absl::Status> Run(const RegionCall& call, const Slot& slot) {
    call.variables->Unlock();
    const std::shared_ptr<const FallbackSubgraph> nodes = call.Nodes("");
    bool ran = false;
    absl::Status status = absl::UnavailableError("no nodes");
    if (nodes != nullptr) status = function_.Run(call.ctx, call.Inputs(), nodes, &ran);
    if (status.ok()) call.runtime->preferred_fallbacks.fetch_add(1, std::memory_order_relaxed);
    if (status.ok()) return status;
    if (ran) return WithItsNode(call, nodes, status);
    KeepKernels(call, slot, status);
    return std::nullopt;
  }

  // Before the kernels run: the profitability check wants to know how long the nodes take, or what equal regions found, or
  // has measured enough. Nobody sees what the nodes do: their results are dropped, they write copies of the variables, and
  // if they fail they are not timed again.
  void Shadow(const RegionCall& call, const Slot& slot, ProfitabilityCheck::Turn* turn) {
    call.variables->Unlock();
    if (turn->found) {
      const Ruling ruling = call.runtime->Verdict(slot, *turn->found);
      slot.check.Decide(ruling);
      if (ruling.form == Form::kStitched) function_.Release();
      return;
    }
    if (turn->look) return slot.check.Looked(call.runtime->Recalled(slot.key));
    const absl::Status status = RunUnseen(call, slot, turn);
    slot.check.End(call.placement.stream, *turn, status.ok());
    if (status.ok()) {
      call.runtime->shadows.fetch_add(1, std::memory_order_relaxed);
    } else if (!absl::IsCancelled(status)) {
      KeepKernels(call, slot, status);
    }
  }

  // What becomes of a call whose kernels ended with `status`. `can_fall_back`: nothing that a second attempt reads was
  // overwritten, and it may do better. Where something was, a kernel that met a value of the user's (an index of no row)
  // has the nodes say what is wrong, on copies.
  absl::Status AfterKernels(const RegionCall& call, const Slot& slot, const ProfitabilityCheck::Turn& turn,
                            const absl::Status& status, bool can_fall_back) {
    slot.check.End(call.placement.stream, turn, status.ok());
    if (status.ok()) {
      call.runtime->runs.fetch_add(1, std::memory_order_relaxed);
      slot.runs.fetch_add(1, std::memory_order_relaxed);
      return status;
    }
    if (can_fall_back) return Fallback(call, std::string(status.message()));
    return absl::IsInvalidArgument(status) ? ErrorOfNodes(call, status) : status;
  }

  // `reason`: why the kernels cannot run; "": they are not built yet.
  absl::Status Fallback(const RegionCall& call, std::string reason) {
    call.variables->Unlock();
    DropKept(call);
    const std::shared_ptr<const FallbackSubgraph> nodes = call.Nodes(reason);
    if (nodes != nullptr) {
      bool ran = false;
      const absl::Status status = function_.Run(call.ctx, call.Inputs(), nodes, &ran);
      if (status.ok()) call.runtime->fallbacks.fetch_add(1, std::memory_order_relaxed);
      if (ran) return status.ok() ? status : WithItsNode(call, nodes, status);
      reason = absl::StrCat(reason, " (through Python, for: ", status.message(), ")");
    }
    return RunThroughPython(call.ctx, call.placement, call.runtime, call.NumValues(), call.variables, reason);
  }

  // Others may need memory that kernels keep between calls.
  static void DropKept(const RegionCall& call) {
    if (const auto kept = KeptTensors::IfAny(call.placement.stream)) kept->Drop();
  }

 private:
  // Takes unlocked variables.
  absl::Status RunUnseen(const RegionCall& call, const Slot& slot, ProfitabilityCheck::Turn* turn) {
    const std::shared_ptr<const FallbackSubgraph> nodes = call.Nodes("");
    if (nodes == nullptr) return absl::UnavailableError("");
    if (!MemoryOf(call.ctx).Fits(slot.fallback_bytes)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("they would take ", slot.fallback_bytes, " bytes, more than half of what is free"));
    }
    DropKept(call);
    std::vector<tensorflow::Tensor> inputs, outputs;
    TF_RETURN_IF_ERROR(UnseenInputs(call, *nodes, &inputs));
    bool ran = false;
    slot.check.Start(call.placement.stream, turn);
    return function_.Run(call.ctx, inputs, nodes, &outputs, &ran);
  }

  // The op's inputs, with copies in place of the variables that the nodes write. Takes unlocked variables.
  static absl::Status UnseenInputs(const RegionCall& call, const FallbackSubgraph& nodes,
                                   std::vector<tensorflow::Tensor>* inputs) {
    *inputs = call.Inputs();
    if (nodes.written().empty()) return absl::OkStatus();
    call.variables->Lock(/*exclusive=*/false);
    const absl::Status copied = CopyVariables(call.ctx, call.placement, call.runtime->context(), *call.variables,
                                              nodes.written(), inputs);
    call.variables->Unlock();
    return copied;
  }

  // The nodes' own error, with the node that met it: for that they run once more, unseen, by the executor that says it.
  // The error is as it was where this meets none, or another.
  absl::Status WithItsNode(const RegionCall& call, const std::shared_ptr<const FallbackSubgraph>& nodes,
                           const absl::Status& error) {
    if (NamesNode(error) || absl::IsCancelled(error)) return error;
    std::vector<tensorflow::Tensor> inputs;
    if (!UnseenInputs(call, *nodes, &inputs).ok()) return error;
    const absl::Status again = Named(call, inputs, nodes);
    const bool same = again.code() == error.code() && absl::StartsWith(again.message(), error.message());
    return same && NamesNode(again) ? again : error;
  }

  // What the nodes say to the values at which a kernel ended with `error`; that itself, where they say nothing.
  absl::Status ErrorOfNodes(const RegionCall& call, const absl::Status& error) {
    call.variables->Unlock();
    const std::shared_ptr<const FallbackSubgraph> nodes = call.Nodes("");
    std::vector<tensorflow::Tensor> inputs;
    if (nodes == nullptr || !UnseenInputs(call, *nodes, &inputs).ok()) return error;
    const absl::Status said = Named(call, inputs, nodes);
    return absl::IsInvalidArgument(said) ? said : error;
  }

  // An unseen run whose errors name their nodes.
  absl::Status Named(const RegionCall& call, const std::vector<tensorflow::Tensor>& inputs,
                     const std::shared_ptr<const FallbackSubgraph>& nodes) {
    std::vector<tensorflow::Tensor> outputs;
    bool ran = false;
    const absl::Status status = naming_.Run(call.ctx, inputs, nodes, &outputs, &ran);
    naming_.Release();
    return status;
  }

  void KeepKernels(const RegionCall& call, const Slot& slot, const absl::Status& why) {
    slot.check.Decide({});
    function_.Release();
    call.runtime->NotTimed(std::string(why.message()));
  }

  FallbackFunction function_, naming_;
};

}  // namespace tf_stitch
