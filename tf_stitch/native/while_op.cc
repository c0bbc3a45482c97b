// StitchWhile: one node that stands for a loop of the user's graph whose body is one region.
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "loop_body.h"
#include "loop_flag.h"
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
    .Input("host_inputs: Thost")
    .Output("outputs: Tout")
    .Attr("Tin: list(type) >= 0")
    .Attr("Thost: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Attr("region: int")
    .Attr("body: int")
    .Attr("condition: int")
    .Attr("host: int = -1")
    .Attr("split: bool = false")
    .Attr("condition_on_host: bool = false")
    .Attr("results: list(type) >= 0")
    .Attr("host_results: list(type) >= 0 = []")
    .Attr("roles: list(int)")
    .Attr("host_roles: list(int) = []")
    .Attr("output_shapes: list(shape) = []")
    .SetShapeFn(OutputShapes);

// A body with what it carries: the one that gives the outputs, or the one that the host runs beside it.
struct Side {
  LoopRoles roles;
  std::vector<DataType> results;    // of the body: types
  std::vector<std::int64_t> items;  // bytes of one element of each
};

// The loop's regions on one device. The loop as a whole is timed, counted and replaced by its own nodes; it is built as
// the others.
struct LoopRegions {
  RegionRuntime* loop = nullptr;
  RegionRuntime* condition = nullptr;
  RegionRuntime* body = nullptr;
  RegionRuntime* host = nullptr;  // null: no body beside the other
};

class StitchWhileOp final : public tensorflow::OpKernel {
 public:
  explicit StitchWhileOp(OpKernelConstruction* c)
      : OpKernel(c),
        on_gpu_(c->device_type() == tensorflow::DeviceType(tensorflow::DEVICE_GPU)),
        original_(on_gpu_) {
    std::vector<DataType> inputs;
    OP_REQUIRES_OK(c, c->GetAttr("Tin", &inputs));
    num_inputs_ = static_cast<int>(inputs.size());
    OP_REQUIRES_OK(c, c->GetAttr("split", &split_));
    OP_REQUIRES_OK(c, c->GetAttr("condition_on_host", &condition_on_host_));
    OP_REQUIRES_OK(c, c->GetAttr("host", &host_id_));
    OP_REQUIRES_OK(c, c->GetAttr("region", &loop_id_));
    OP_REQUIRES_OK(c, c->GetAttr("condition", &condition_id_));
    OP_REQUIRES_OK(c, c->GetAttr("body", &body_id_));
    OP_REQUIRES(c, (split_ || !on_gpu_) && (host_id_ >= 0 ? split_ : !condition_on_host_),
                absl::InvalidArgumentError(absl::StrCat("tf_stitch: nothing of ", name(), " runs on the host")));
    const InputSpan own{0, num_inputs_}, on_host{num_inputs_, c->num_inputs() - num_inputs_};
    if (host_id_ >= 0) OP_REQUIRES_OK(c, Read(c, "host_roles", "host_results", on_host, on_host, 0, nullptr, &host_));
    OP_REQUIRES_OK(c, Read(c, "roles", "results", own, split_ ? on_host : own, c->num_outputs(),
                           split_ ? &host_.roles : nullptr, &main_));
    ahead_ = split_ && !condition_on_host_ && LeavesNoTrace(main_.roles);
    OP_REQUIRES(c, TypesAgree(c),
                absl::InvalidArgumentError(absl::StrCat("tf_stitch: types of ", name(), " contradict its roles")));
    for (int i = 0; i < c->num_inputs(); ++i) input_types_.push_back(c->input_type(i));
    for (int i = 0; i < c->num_outputs(); ++i) output_types_.push_back(c->output_type(i));
    if (!on_gpu_) OP_REQUIRES_OK(c, FindRegions(Placement{}).status());
  }

  void Compute(OpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, Run(ctx)); }

 private:
  absl::Status Read(OpKernelConstruction* c, const char* roles, const char* results, InputSpan inputs,
                    InputSpan counts, int num_outputs, const LoopRoles* numbers, Side* side) const {
    std::vector<std::int64_t> words;
    TF_RETURN_IF_ERROR(c->GetAttr(roles, &words));
    TF_RETURN_IF_ERROR(c->GetAttr(results, &side->results));
    for (const DataType type : side->results) side->items.push_back(tensorflow::DataTypeSize(type));
    const RoleLimits limits{inputs, counts, num_outputs, static_cast<int>(side->results.size())};
    const std::string wrong = side->roles.Parse(words, limits, numbers);
    if (wrong.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("tf_stitch: ", roles, " of ", name(), ": ", wrong));
  }

  // The body whose inputs number rows.
  const Side& Numbering() const { return split_ ? host_ : main_; }
  // The body whose results the condition reads.
  const Side& Conditional() const { return condition_on_host_ ? host_ : main_; }

  bool TypesAgree(OpKernelConstruction* c) const {
    bool agree = true;
    const auto is_number = [&](const Row& row) {
      return row.numbered_by < 0 ||
             c->input_type(Numbering().roles.body[row.numbered_by].input) == tensorflow::DT_INT32;
    };
    for (const Side* side : {&main_, &host_}) {
      for (const auto* roles : {&side->roles.body, &side->roles.condition}) {
        for (const InputRole& role : *roles) {
          agree &= is_number(role.row);
          if (role.kind == InputRole::Kind::kCarried) agree &= c->input_type(role.input) == side->results[role.result];
        }
      }
    }
    for (int i = 0; i < c->num_outputs(); ++i) {
      const OutputRole& role = main_.roles.outputs[i];
      const DataType type = main_.results[role.result];
      agree &= is_number(role.row) && c->output_type(i) == type;
      const bool last = role.kind == OutputRole::Kind::kLast;
      if (role.input >= 0) agree &= c->input_type(role.input) == (last ? type : tensorflow::DT_INT32);
    }
    return agree;
  }

  // A kernel instance lives on one device, whose context never changes.
  absl::StatusOr<const LoopRegions*> FindRegions(const Placement& placement) {
    const std::lock_guard<std::mutex> lock(regions_mutex_);
    if (regions_) return &*regions_;
    CUcontext context = nullptr;
    CUdevice device = -1;
    if (placement.on_gpu) {
      TF_RETURN_IF_ERROR(CudaStatus("cuStreamGetCtx", Cuda().StreamGetCtx(placement.stream, &context)));
      const ScopedContext current(context);
      TF_RETURN_IF_ERROR(CudaStatus("cuCtxGetDevice", Cuda().CtxGetDevice(&device)));
    }
    const auto find = [&](std::int64_t region, bool on_host, int num_inputs, const std::vector<DataType>& types) {
      return Find(region, on_host ? -1 : device, on_host ? nullptr : context, num_inputs, types);
    };
    const auto part = [&](std::int64_t region, bool on_host, const LoopPart::Roles& inputs,
                          const std::vector<DataType>& results) {
      std::vector<DataType> types;
      for (const InputRole& role : inputs) types.push_back(input_types_[role.input]);
      types.insert(types.end(), results.begin(), results.end());
      return find(region, on_host, static_cast<int>(inputs.size()), types);
    };
    std::vector<DataType> types(input_types_.begin(), input_types_.begin() + num_inputs_);
    types.insert(types.end(), output_types_.begin(), output_types_.end());
    LoopRegions found;
    TF_ASSIGN_OR_RETURN(found.loop, find(loop_id_, false, num_inputs_, types));
    TF_ASSIGN_OR_RETURN(found.condition, part(condition_id_, condition_on_host_, Conditional().roles.condition,
                                              {tensorflow::DT_BOOL}));
    TF_ASSIGN_OR_RETURN(found.body, part(body_id_, false, main_.roles.body, main_.results));
    if (host_id_ >= 0) {
      TF_ASSIGN_OR_RETURN(found.host, part(host_id_, true, host_.roles.body, host_.results));
    }
    return &regions_.emplace(found);
  }

  absl::StatusOr<RegionRuntime*> Find(std::int64_t region, int device, CUcontext context, int num_inputs,
                                      const std::vector<DataType>& types) const {
    TF_ASSIGN_OR_RETURN(const std::vector<std::int32_t> signature, Signature(name(), num_inputs, 0, types));
    RegionRuntime* runtime = FindRuntime(region, device, context, signature);
    if (runtime != nullptr) return runtime;
    return absl::InvalidArgumentError(
        absl::StrCat("tf_stitch: ", name(), " has other types than the first node of region ", region));
  }

  absl::Status Run(OpKernelContext* ctx) {
    TF_ASSIGN_OR_RETURN(const Placement placement, Placement::Of(ctx, on_gpu_));
    TF_ASSIGN_OR_RETURN(const LoopRegions* regions, FindRegions(placement));
    VariableSet none;
    const RegionCall call{ctx, placement, regions->loop, &none, num_inputs_};
    if (!RanksAgree(ctx)) return original_.Fallback(call, "a loop takes rows of a scalar, or a row's number is none");
    TF_ASSIGN_OR_RETURN(const auto condition, FindSlot(ctx, regions->condition, condition_on_host_,
                                                       Conditional().roles.condition, Conditional(), {sizeof(bool)}));
    TF_ASSIGN_OR_RETURN(const auto body,
                        FindSlot(ctx, regions->body, false, main_.roles.body, main_, main_.items));
    std::shared_ptr<const Slot> host;
    if (regions->host != nullptr) {
      TF_ASSIGN_OR_RETURN(host, FindSlot(ctx, regions->host, true, host_.roles.body, host_, host_.items));
    }
    for (const Slot* slot : {condition.get(), body.get(), host.get()}) {
      if (slot == nullptr) continue;
      if (slot->invalid) {
        return absl::InternalError(absl::StrCat("tf_stitch: bad executable for ", name(), ": ", slot->reason));
      }
      if (slot->executable == nullptr) return original_.Fallback(call, slot->reason);
    }
    ShapeKey key;
    for (int i = 0; i < num_inputs_; ++i) key.Add(ctx->input(i));
    std::shared_ptr<const Slot> slot = regions->loop->Find(key.data(), key.size());
    if (slot == nullptr) slot = regions->loop->Keep(key.Copy());

    const Guard::Turn turn = slot->guard.Begin(placement.stream);
    if (turn.form == Form::kOriginal) {
      const std::optional<absl::Status> status = original_.Run(call, *slot, turn);
      return status ? *status : Run(ctx);
    }
    absl::Status status = Execute(ctx, placement, *regions, *condition->executable, *body->executable,
                                  host == nullptr ? nullptr : host->executable.get());
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
      return row.numbered_by < 0 || rank(Numbering().roles.body[row.numbered_by]) == 0;
    };
    for (const Side* side : {&main_, &host_}) {
      for (const auto* roles : {&side->roles.body, &side->roles.condition}) {
        for (const InputRole& role : *roles) agree &= rank(role) >= 0 && is_number(role.row);
      }
    }
    for (const OutputRole& role : main_.roles.outputs) agree &= is_number(role.row);
    return agree;
  }

  // Of the part with these inputs; `side` has the body whose results it reads.
  absl::StatusOr<std::shared_ptr<const Slot>> FindSlot(OpKernelContext* ctx, RegionRuntime* region, bool on_host,
                                                       const LoopPart::Roles& inputs, const Side& side,
                                                       const std::vector<std::int64_t>& output_items) const {
    const bool on_gpu = on_gpu_ && !on_host;
    const ShapeKey key = LoopPart::Key(ctx, on_gpu, inputs, side.roles.results);
    std::shared_ptr<const Slot> slot = region->Find(key.data(), key.size());
    if (slot == nullptr) slot = region->Resolve(key.Copy(), LoopPart::ExtentsOf(ctx, on_gpu, inputs, output_items));
    if (slot == nullptr) return absl::FailedPreconditionError(absl::StrCat(name(), ": ", kNoCallbacks));
    return slot;
  }

  // `beside`: of the host's body, null if there is none.
  absl::Status Execute(OpKernelContext* ctx, const Placement& placement, const LoopRegions& regions,
                       const Executable& condition, const Executable& executable, const Executable* beside) {
    const CUcontext context = regions.body->context();
    std::optional<ScopedContext> current;
    if (on_gpu_) current.emplace(context);
    if (!condition.outputs[0].dims.empty()) return absl::InvalidArgumentError("a loop's condition is no scalar");
    LoopBody body(ctx, placement, context, main_.roles, executable, main_.results, ahead_);
    std::optional<LoopBody> host;
    if (beside != nullptr) host.emplace(ctx, host_placement_, nullptr, host_.roles, *beside, host_.results, ahead_);
    const Placement& deciding = condition_on_host_ ? host_placement_ : placement;
    const LoopRoles& decided_by = Conditional().roles;
    LoopPart test(ctx, deciding, condition_on_host_ ? nullptr : context, decided_by.condition, decided_by.results,
                  condition);
    LoopFlag flag(deciding);
    TF_RETURN_IF_ERROR(flag.Allocate(ctx));
    TF_RETURN_IF_ERROR(test.Allocate());
    TF_RETURN_IF_ERROR(body.Allocate(expected_.load(std::memory_order_relaxed)));
    if (host) TF_RETURN_IF_ERROR(host->Allocate(0));
    test.results() = {flag.target()};

    std::int64_t iterations = 0;
    const absl::Status status = Iterate(ctx, &test, flag, &body, host ? &*host : nullptr, &iterations);
    regions.condition->runs.fetch_add(iterations + 1, std::memory_order_relaxed);
    regions.body->runs.fetch_add(iterations, std::memory_order_relaxed);
    if (host) regions.host->runs.fetch_add(iterations, std::memory_order_relaxed);
    TF_RETURN_IF_ERROR(status);
    expected_.store(iterations, std::memory_order_relaxed);
    return body.Deliver(iterations);
  }

  // `iterations`: how many ended.
  absl::Status Iterate(OpKernelContext* ctx, LoopPart* test, const LoopFlag& flag, LoopBody* body, LoopBody* host,
                       std::int64_t* iterations) const {
    tensorflow::CancellationManager* cancellation = ctx->cancellation_manager();
    const LoopBody& deciding = condition_on_host_ ? *host : *body;
    for (std::int64_t& i = *iterations;; ++i) {
      if (cancellation != nullptr && cancellation->IsCancelled()) return absl::CancelledError("the loop was cancelled");
      TF_RETURN_IF_ERROR(test->Point(i, deciding.latest(), deciding.inputs()));
      TF_RETURN_IF_ERROR(test->Run());
      TF_RETURN_IF_ERROR(flag.Send());
      absl::Status begun = ahead_ ? Begin(i, body, host) : absl::OkStatus();
      TF_ASSIGN_OR_RETURN(const bool goes_on, flag.Receive());
      if (!goes_on) return absl::OkStatus();
      if (!ahead_) begun = Begin(i, body, host);
      TF_RETURN_IF_ERROR(begun);
      TF_RETURN_IF_ERROR(body->Keep());
      if (host != nullptr) TF_RETURN_IF_ERROR(host->Keep());
    }
  }

  // Begins an iteration. If the condition is not known yet this may fail for one that is none.
  static absl::Status Begin(std::int64_t iteration, LoopBody* body, LoopBody* host) {
    const LoopBody& numbering = host == nullptr ? *body : *host;
    if (host != nullptr) TF_RETURN_IF_ERROR(host->Point(iteration, host->inputs()));
    TF_RETURN_IF_ERROR(body->Point(iteration, numbering.inputs()));
    TF_RETURN_IF_ERROR(body->Run());
    return host == nullptr ? absl::OkStatus() : host->Run();
  }

  // Whether an iteration that does not count leaves no trace.
  static bool LeavesNoTrace(const LoopRoles& roles) {
    for (const OutputRole& role : roles.outputs) {
      if (role.row.numbered_by >= 0) return false;
    }
    return true;
  }

  const bool on_gpu_;
  const Placement host_placement_{};
  int num_inputs_ = 0;              // that the loop's own nodes have; copies for the host follow
  bool split_ = false;              // numbers of rows, and how many there are, are for the host to read
  bool condition_on_host_ = false;
  bool ahead_ = false;              // the body begins an iteration while the host waits for the condition
  std::int64_t loop_id_ = 0, condition_id_ = 0, body_id_ = 0, host_id_ = -1;
  Side main_;
  Side host_;  // without roles if there is none
  std::vector<DataType> input_types_;
  std::vector<DataType> output_types_;
  std::mutex regions_mutex_;
  std::optional<LoopRegions> regions_;
  std::atomic<std::int64_t> expected_{0};  // iterations: as many as last time
  OriginalForm original_;
};

REGISTER_KERNEL_BUILDER(Name("StitchWhile").Device(tensorflow::DEVICE_CPU), StitchWhileOp);
REGISTER_KERNEL_BUILDER(Name("StitchWhile").Device(tensorflow::DEVICE_GPU).HostMemory("host_inputs"), StitchWhileOp);

}  // namespace
}  // namespace tf_stitch
