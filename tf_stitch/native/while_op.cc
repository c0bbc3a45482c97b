// StitchWhile: one node that stands for a loop of the user's graph whose body is one region.
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loop_part.h"
#include "loop_results.h"
#include "loop_roles.h"
#include "node_types.h"
#include "original_form.h"
#include "region_runtime.h"
#include "shape_key.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

REGISTER_OP("StitchWhile")
    .Input("inputs: Tin")
    .Output("outputs: Tout")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Attr("region: int")
    .Attr("body: int")
    .Attr("condition: int")
    .Attr("results: list(type) >= 0")
    .Attr("roles: list(int)")
    .Attr("output_shapes: list(shape) = []")
    .SetShapeFn(OutputShapes);

class StitchWhileOp final : public tensorflow::OpKernel {
 public:
  explicit StitchWhileOp(OpKernelConstruction* c) : OpKernel(c), original_(/*on_gpu=*/false) {
    std::vector<std::int64_t> words;
    OP_REQUIRES_OK(c, c->GetAttr("roles", &words));
    OP_REQUIRES_OK(c, c->GetAttr("results", &results_));
    const std::string wrong =
        roles_.Parse(words, c->num_inputs(), c->num_outputs(), static_cast<int>(results_.size()));
    OP_REQUIRES(c, wrong.empty(),
                absl::InvalidArgumentError(absl::StrCat("tf_stitch: roles of ", name(), ": ", wrong)));
    OP_REQUIRES(c, TypesAgree(c),
                absl::InvalidArgumentError(absl::StrCat("tf_stitch: types of ", name(), " contradict its roles")));
    std::vector<DataType> types(c->input_types().begin(), c->input_types().end());
    types.insert(types.end(), c->output_types().begin(), c->output_types().end());
    OP_REQUIRES_VALUE(loop_, c, Region(c, "region", c->num_inputs(), types));
    OP_REQUIRES_VALUE(condition_, c, Region(c, "condition", roles_.condition, {tensorflow::DT_BOOL}));
    OP_REQUIRES_VALUE(body_, c, Region(c, "body", roles_.body, results_));
    for (const DataType type : results_) items_.push_back(tensorflow::DataTypeSize(type));
  }

  void Compute(OpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, Run(ctx)); }

 private:
  bool TypesAgree(OpKernelConstruction* c) const {
    bool agree = true;
    const auto is_number = [&](const Row& row) {
      return row.numbered_by < 0 || c->input_type(roles_.body[row.numbered_by].input) == tensorflow::DT_INT32;
    };
    for (const auto* roles : {&roles_.body, &roles_.condition}) {
      for (const InputRole& role : *roles) {
        agree &= is_number(role.row);
        if (role.kind == InputRole::Kind::kCarried) agree &= c->input_type(role.input) == results_[role.result];
      }
    }
    for (int i = 0; i < c->num_outputs(); ++i) {
      const OutputRole& role = roles_.outputs[i];
      agree &= is_number(role.row) && c->output_type(i) == results_[role.result];
      const bool last = role.kind == OutputRole::Kind::kLast;
      if (role.input >= 0) agree &= c->input_type(role.input) == (last ? results_[role.result] : tensorflow::DT_INT32);
    }
    return agree;
  }

  // The region that an attribute names.
  absl::StatusOr<RegionRuntime*> Region(OpKernelConstruction* c, const char* attribute, int num_inputs,
                                        const std::vector<DataType>& types) const {
    std::int64_t region = 0;
    TF_RETURN_IF_ERROR(c->GetAttr(attribute, &region));
    TF_ASSIGN_OR_RETURN(const std::vector<std::int32_t> signature, Signature(name(), num_inputs, 0, types));
    RegionRuntime* runtime = FindRuntime(region, /*device=*/-1, nullptr, signature);
    if (runtime != nullptr) return runtime;
    return absl::InvalidArgumentError(
        absl::StrCat("tf_stitch: ", name(), " has other types than the first node of region ", region));
  }

  absl::StatusOr<RegionRuntime*> Region(OpKernelConstruction* c, const char* attribute, const LoopPart::Roles& inputs,
                                        const std::vector<DataType>& results) const {
    std::vector<DataType> types;
    for (const InputRole& role : inputs) types.push_back(c->input_type(role.input));
    types.insert(types.end(), results.begin(), results.end());
    return Region(c, attribute, static_cast<int>(inputs.size()), types);
  }

  absl::Status Run(OpKernelContext* ctx) {
    VariableSet none;
    const RegionCall call{ctx, on_cpu_, loop_, &none};
    if (!RanksAgree(ctx)) return original_.Fallback(call, "a loop takes rows of a scalar, or a row's number is none");
    TF_ASSIGN_OR_RETURN(const auto condition, FindSlot(ctx, condition_, roles_.condition, {sizeof(bool)}));
    TF_ASSIGN_OR_RETURN(const auto body, FindSlot(ctx, body_, roles_.body, items_));
    for (const Slot* slot : {condition.get(), body.get()}) {
      if (slot->invalid) {
        return absl::InternalError(absl::StrCat("tf_stitch: bad executable for ", name(), ": ", slot->reason));
      }
      if (slot->executable == nullptr) return original_.Fallback(call, slot->reason);
    }
    ShapeKey key;
    for (int i = 0; i < ctx->num_inputs(); ++i) key.Add(ctx->input(i));
    std::shared_ptr<const Slot> slot = loop_->Find(key.data(), key.size());
    if (slot == nullptr) slot = loop_->Keep(key.Copy());

    const Guard::Turn turn = slot->guard.Begin(nullptr);
    if (turn.form == Form::kOriginal) {
      const std::optional<absl::Status> status = original_.Run(call, *slot, turn);
      return status ? *status : Run(ctx);
    }
    absl::Status status = Execute(ctx, *condition->executable, *body->executable);
    if (absl::IsResourceExhausted(status)) {  // TensorFlow's message has sizes; reasons are counted by their text
      status = absl::ResourceExhaustedError("no memory for the rows of a loop");
      expected_.store(0, std::memory_order_relaxed);
    }
    return original_.AfterKernels(call, *slot, turn, status, /*can_fall_back=*/!absl::IsCancelled(status));
  }

  // What rows are taken of has a rank; what numbers rows has none.
  bool RanksAgree(OpKernelContext* ctx) const {
    bool agree = true;
    const auto rank = [&](const InputRole& role) {
      return ctx->input(role.input).dims() - (role.kind == InputRole::Kind::kElement ? 1 : 0);
    };
    const auto is_number = [&](const Row& row) {
      return row.numbered_by < 0 || rank(roles_.body[row.numbered_by]) == 0;
    };
    for (const auto* roles : {&roles_.body, &roles_.condition}) {
      for (const InputRole& role : *roles) agree &= rank(role) >= 0 && is_number(role.row);
    }
    for (const OutputRole& role : roles_.outputs) agree &= is_number(role.row);
    return agree;
  }

  absl::StatusOr<std::shared_ptr<const Slot>> FindSlot(OpKernelContext* ctx, RegionRuntime* region,
                                                       const LoopPart::Roles& roles,
                                                       const std::vector<std::int64_t>& output_items) const {
    const ShapeKey key = LoopPart::Key(ctx, roles, roles_.results);
    std::shared_ptr<const Slot> slot = region->Find(key.data(), key.size());
    if (slot == nullptr) slot = region->Resolve(key.Copy(), LoopPart::ExtentsOf(ctx, roles, output_items));
    if (slot == nullptr) return absl::FailedPreconditionError(absl::StrCat(name(), ": ", kNoCallbacks));
    return slot;
  }

  absl::Status Execute(OpKernelContext* ctx, const Executable& condition, const Executable& body) {
    LoopPart test(ctx, on_cpu_, roles_.condition, condition), step(ctx, on_cpu_, roles_.body, body);
    LoopResults results(ctx, roles_, body, results_);
    TF_RETURN_IF_ERROR(results.CheckCarried(roles_.condition));
    TF_RETURN_IF_ERROR(results.CheckCarried(roles_.body));
    if (!condition.outputs[0].dims.empty()) return absl::InvalidArgumentError("a loop's condition is no scalar");
    TF_RETURN_IF_ERROR(test.Allocate(ctx));
    TF_RETURN_IF_ERROR(step.Allocate(ctx));
    TF_RETURN_IF_ERROR(results.Allocate(expected_.load(std::memory_order_relaxed)));

    std::int64_t iterations = 0;
    const absl::Status status = Iterate(ctx, &test, &step, &results, &iterations);
    condition_->runs.fetch_add(iterations + 1, std::memory_order_relaxed);
    body_->runs.fetch_add(iterations, std::memory_order_relaxed);
    TF_RETURN_IF_ERROR(status);
    expected_.store(iterations, std::memory_order_relaxed);
    return results.Deliver(iterations);
  }

  // `iterations`: how many ended.
  static absl::Status Iterate(OpKernelContext* ctx, LoopPart* test, LoopPart* step, LoopResults* results,
                              std::int64_t* iterations) {
    tensorflow::CancellationManager* cancellation = ctx->cancellation_manager();
    alignas(ShapeKey::kAlignment) bool goes_on = false;
    test->results() = {&goes_on};
    for (std::int64_t& i = *iterations;; ++i) {
      if (cancellation != nullptr && cancellation->IsCancelled()) return absl::CancelledError("the loop was cancelled");
      TF_RETURN_IF_ERROR(test->Point(i, results->latest()));
      TF_RETURN_IF_ERROR(test->Run());
      if (!goes_on) return absl::OkStatus();
      TF_RETURN_IF_ERROR(results->Reserve(i));
      TF_RETURN_IF_ERROR(step->Point(i, results->latest()));
      TF_RETURN_IF_ERROR(results->Point(i, step->inputs(), &step->results()));
      TF_RETURN_IF_ERROR(step->Run());
      results->Keep(step->results());
    }
  }

  const Placement on_cpu_{};
  LoopRoles roles_;
  std::vector<DataType> results_;    // of the body: types
  std::vector<std::int64_t> items_;  // bytes of one element of each
  RegionRuntime* loop_ = nullptr;    // timed, counted and replaced by its own nodes as a whole; built as two regions:
  RegionRuntime* condition_ = nullptr;
  RegionRuntime* body_ = nullptr;
  std::atomic<std::int64_t> expected_{0};  // iterations: as many as last time
  OriginalForm original_;
};

REGISTER_KERNEL_BUILDER(Name("StitchWhile").Device(tensorflow::DEVICE_CPU), StitchWhileOp);

}  // namespace
}  // namespace tf_stitch
