// StitchWhile: one node that stands for a loop of the user's graph whose body is one region.
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loop/interruption.h"
#include "loop/loop_body.h"
#include "loop/loop_flag.h"
#include "loop/loop_spec.h"
#include "cuda/node_types.h"
#include "op/fallback_form.h"
#include "op/region_runtime.h"
#include "op/registration.h"
#include "op/runtime_registry.h"
#include "op/shape_key.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

TFS_REGISTER_OP("StitchWhile")
    .Input("inputs: Tin")
    .Input("host_inputs: Thost")
    .Output("outputs: Tout")
    .Attr("Tin: list(type) >= 0")
    .Attr("Thost: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Attr("region: int")
    .Attr("token: int = 0")
    .Attr("body: int")
    .Attr("condition: int")
    .Attr("host: int = -1")
    .Attr("host_check: int = -1")
    .Attr("split: bool = false")
    .Attr("condition_on_host: bool = false")
    .Attr("results: list(type) >= 0")
    .Attr("host_results: list(type) >= 0 = []")
    .Attr("roles: list(int)")
    .Attr("host_roles: list(int) = []")
    .Attr("output_shapes: list(shape) = []")
    .SetShapeFn(OutputShapes);

// The loop's regions on one device. The loop as a whole is timed, counted and replaced by its own nodes; it is built as
// the others.
struct LoopRegions {
  std::vector<RegionRuntime*> All() const {
    std::vector<RegionRuntime*> all{loop, condition, body};
    if (host != nullptr) all.push_back(host);
    return all;
  }

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
        fallback_(on_gpu_) {
    OP_REQUIRES_OK(c, spec_.Read(c));
    OP_REQUIRES(c, spec_.split || !on_gpu_,
                absl::InvalidArgumentError(absl::StrCat("tf_stitch: ", name(), " is on a GPU, and not split")));
    ahead_ = spec_.split && !spec_.condition_on_host && spec_.LeavesNoTrace();
    if (!on_gpu_) OP_REQUIRES_OK(c, FindRegions(Placement{}).status());
  }

  ~StitchWhileOp() override {
    if (!entered_) return;
    for (RegionRuntime* region : regions_->All()) region->Leave();
  }

  void Compute(OpKernelContext* ctx) override { OP_REQUIRES_OK(ctx, WithUsersNodes(Run(ctx), def())); }

 private:
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
      for (const InputRole& role : inputs) types.push_back(spec_.inputs[role.input]);
      types.insert(types.end(), results.begin(), results.end());
      return find(region, on_host, static_cast<int>(inputs.size()), types);
    };
    std::vector<DataType> types(spec_.inputs.begin(), spec_.inputs.begin() + spec_.num_inputs);
    types.insert(types.end(), spec_.outputs.begin(), spec_.outputs.end());
    LoopRegions found;
    TF_ASSIGN_OR_RETURN(found.loop, find(spec_.loop, false, spec_.num_inputs, types));
    TF_ASSIGN_OR_RETURN(found.condition, part(spec_.condition, spec_.condition_on_host,
                                              spec_.conditional().roles.condition, {tensorflow::DT_BOOL}));
    TF_ASSIGN_OR_RETURN(found.body, part(spec_.body, false, spec_.main.roles.body, spec_.main.results));
    if (spec_.host >= 0) {
      TF_ASSIGN_OR_RETURN(found.host, part(spec_.host, true, spec_.beside.roles.body, spec_.beside.results));
    }
    return &regions_.emplace(found);
  }

  // With the first run: TensorFlow makes kernels that never run, of executors that it gives up, and a region whose last
  // kernel leaves is given up, too.
  void Enter() {
    if (entered_.load(std::memory_order_acquire)) return;
    const std::lock_guard<std::mutex> lock(regions_mutex_);
    if (entered_) return;
    for (RegionRuntime* region : regions_->All()) region->Enter();
    entered_.store(true, std::memory_order_release);
  }

  absl::StatusOr<RegionRuntime*> Find(std::int64_t region, int device, CUcontext context, int num_inputs,
                                      const std::vector<DataType>& types) const {
    TF_ASSIGN_OR_RETURN(const std::vector<std::int32_t> signature, Signature(name(), num_inputs, 0, types));
    RegionRuntime* runtime = FindRuntime(region, device, context, signature).get();  // stays for the process's life
    if (runtime != nullptr) return runtime;
    return absl::InvalidArgumentError(
        absl::StrCat("tf_stitch: ", name(), " has other types than the first node of region ", region));
  }

  absl::Status Run(OpKernelContext* ctx) {
    TF_ASSIGN_OR_RETURN(const Placement placement, Placement::Of(ctx, on_gpu_));
    TF_ASSIGN_OR_RETURN(const LoopRegions* regions, FindRegions(placement));
    Enter();
    VariableSet none;
    const RegionCall call{ctx, placement, regions->loop, &none, spec_.num_inputs};
    if (!spec_.RanksAgree(ctx)) {
      return fallback_.Fallback(call, "a loop takes rows of a scalar, or a row's number is none");
    }
    const LoopRoles& decided_by = spec_.conditional().roles;
    TF_ASSIGN_OR_RETURN(const auto condition, FindSlot(ctx, regions->condition, spec_.condition_on_host,
                                                       decided_by.condition, decided_by, {sizeof(bool)}));
    TF_ASSIGN_OR_RETURN(const auto body, FindSlot(ctx, regions->body, false, spec_.main));
    std::shared_ptr<const Slot> host;
    if (regions->host != nullptr) {
      TF_ASSIGN_OR_RETURN(host, FindSlot(ctx, regions->host, true, spec_.beside));
    }
    for (const Slot* slot : {condition.get(), body.get(), host.get()}) {
      if (slot == nullptr) continue;
      if (slot->invalid) {
        return absl::InternalError(absl::StrCat("tf_stitch: bad executable for ", name(), ": ", slot->reason));
      }
      if (slot->executable == nullptr) return fallback_.Fallback(call, slot->reason);
    }
    ShapeKey key;
    for (int i = 0; i < spec_.num_inputs; ++i) key.Add(ctx->input(i));
    std::shared_ptr<const Slot> slot = regions->loop->Find(key.data(), key.size());
    if (slot == nullptr) slot = regions->loop->Keep(key.Copy());

    ProfitabilityCheck::Turn turn = slot->check.Begin(placement.stream);
    if (turn.form == Form::kFallback) {
      const std::optional<absl::Status> status = fallback_.Run(call, *slot);
      return status ? *status : Run(ctx);
    }
    if (turn.Beside()) {
      fallback_.Shadow(call, *slot, &turn);
      return Run(ctx);
    }
    slot->check.Start(placement.stream, &turn);
    absl::Status status = Execute(ctx, placement, *regions, *condition->executable, *body->executable,
                                  host == nullptr ? nullptr : host->executable.get());
    if (absl::IsResourceExhausted(status)) {  // TensorFlow's message has sizes; reasons are counted by their text
      status = absl::ResourceExhaustedError("no memory for the rows of a loop");
      expected_.store(0, std::memory_order_relaxed);
    }
    return fallback_.AfterKernels(call, *slot, turn, status, /*can_fall_back=*/!absl::IsCancelled(status));
  }

  absl::StatusOr<std::shared_ptr<const Slot>> FindSlot(OpKernelContext* ctx, RegionRuntime* region, bool on_host,
                                                       const LoopSide& side) const {
    return FindSlot(ctx, region, on_host, side.roles.body, side.roles, side.items,
                    [&side](const Executable& body) { return side.roles.Refuse(body); });
  }

  // Of the part with these inputs; `roles` are those of the body whose results it reads. All nodes of a part have the
  // same, so that an executable is checked once.
  absl::StatusOr<std::shared_ptr<const Slot>> FindSlot(OpKernelContext* ctx, RegionRuntime* region, bool on_host,
                                                       const LoopPart::Roles& inputs, const LoopRoles& roles,
                                                       const std::vector<std::int64_t>& output_items,
                                                       Extents::Check refuse = nullptr) const {
    const bool on_gpu = on_gpu_ && !on_host;
    const ShapeKey key = LoopPart::Key(ctx, on_gpu, inputs, roles.results);
    std::shared_ptr<const Slot> slot = region->Find(key.data(), key.size());
    if (slot == nullptr) {
      Extents extents = LoopPart::ExtentsOf(ctx, on_gpu, inputs, output_items);
      extents.refuse = std::move(refuse);
      slot = region->Resolve(key.Copy(), extents);
    }
    if (slot == nullptr) return absl::FailedPreconditionError(absl::StrCat(name(), ": ", kNoCallbacks));
    if (RegionRuntime::WantsLabels(*slot)) region->Label(*slot);
    return slot;
  }

  // `beside`: of the host's body, null if there is none.
  absl::Status Execute(OpKernelContext* ctx, const Placement& placement, const LoopRegions& regions,
                       const Executable& condition, const Executable& executable, const Executable* beside) {
    const CUcontext context = regions.body->context();
    std::optional<ScopedContext> current;
    if (on_gpu_) current.emplace(context);
    if (!condition.outputs[0].empty()) return absl::InvalidArgumentError("a loop's condition is no scalar");
    const bool ahead = ahead_ && executable.updated.empty() && (beside == nullptr || beside->updated.empty());
    LoopBody body(ctx, placement, context, spec_.main.roles, executable, spec_.main.results, ahead);
    std::optional<LoopBody> host;
    if (beside != nullptr) {
      host.emplace(ctx, host_placement_, nullptr, spec_.beside.roles, *beside, spec_.beside.results, ahead);
      if (spec_.host_check >= 0 && !beside->outputs[spec_.host_check].empty()) {
        return absl::InvalidArgumentError("what a loop checks is no scalar");
      }
    }
    const Placement& deciding = spec_.condition_on_host ? host_placement_ : placement;
    const LoopRoles& decided_by = spec_.conditional().roles;
    LoopPart test(ctx, deciding, spec_.condition_on_host ? nullptr : context, decided_by.condition, decided_by.results,
                  condition);
    LoopFlag flag(deciding);
    TF_RETURN_IF_ERROR(flag.Allocate(ctx));
    TF_RETURN_IF_ERROR(test.Allocate());
    TF_RETURN_IF_ERROR(body.Allocate(expected_.load(std::memory_order_relaxed)));
    if (host) TF_RETURN_IF_ERROR(host->Allocate(0));
    test.results() = {flag.target()};

    std::int64_t iterations = 0;
    const absl::Status status = Iterate(ctx, &test, flag, &body, host ? &*host : nullptr, ahead, &iterations);
    regions.condition->runs.fetch_add(iterations + 1, std::memory_order_relaxed);
    regions.body->runs.fetch_add(iterations, std::memory_order_relaxed);
    if (host) regions.host->runs.fetch_add(iterations, std::memory_order_relaxed);
    TF_RETURN_IF_ERROR(status);
    expected_.store(iterations, std::memory_order_relaxed);
    return body.Deliver(iterations);
  }

  // `ahead`: the body begins an iteration while the host waits for the condition. `iterations`: how many ended.
  absl::Status Iterate(OpKernelContext* ctx, LoopPart* test, const LoopFlag& flag, LoopBody* body, LoopBody* host,
                       bool ahead, std::int64_t* iterations) const {
    tensorflow::CancellationManager* cancellation = ctx->cancellation_manager();
    const LoopBody& deciding = spec_.condition_on_host ? *host : *body;
    for (std::int64_t& i = *iterations;; ++i) {
      if (cancellation != nullptr && cancellation->IsCancelled()) return absl::CancelledError("the loop was cancelled");
      TF_RETURN_IF_ERROR(GoesOn());
      TF_RETURN_IF_ERROR(test->Point(i, deciding.latest(), deciding.inputs()));
      TF_RETURN_IF_ERROR(test->Run());
      TF_RETURN_IF_ERROR(flag.Send());
      absl::Status begun = ahead ? Begin(i, body, host) : absl::OkStatus();
      TF_ASSIGN_OR_RETURN(const bool goes_on, flag.Receive());
      if (!goes_on) return absl::OkStatus();
      if (!ahead) begun = Begin(i, body, host);
      TF_RETURN_IF_ERROR(begun);
      TF_RETURN_IF_ERROR(body->Keep());
      if (host != nullptr) TF_RETURN_IF_ERROR(host->Keep());
    }
  }

  // Begins an iteration. If the condition is not known yet this may fail for one that is none.
  absl::Status Begin(std::int64_t iteration, LoopBody* body, LoopBody* host) const {
    const LoopBody& numbering = host == nullptr ? *body : *host;
    if (host != nullptr) TF_RETURN_IF_ERROR(host->Point(iteration, host->inputs()));
    TF_RETURN_IF_ERROR(body->Point(iteration, numbering.inputs()));
    TF_RETURN_IF_ERROR(body->Run());
    if (host == nullptr) return absl::OkStatus();
    TF_RETURN_IF_ERROR(host->Run());
    if (spec_.host_check < 0 || *static_cast<const bool*>(host->results()[spec_.host_check])) return absl::OkStatus();
    return absl::OutOfRangeError("an index of a loop is outside");
  }

  const bool on_gpu_;
  const Placement host_placement_{};
  LoopSpec spec_;
  bool ahead_ = false;  // an iteration that does not count leaves no trace, unless the body updates what it carries
  std::mutex regions_mutex_;
  std::optional<LoopRegions> regions_;
  std::atomic<bool> entered_{false};
  std::atomic<std::int64_t> expected_{0};  // iterations: as many as last time
  FallbackForm fallback_;
};

TFS_REGISTER_KERNEL(Name("StitchWhile").Device(tensorflow::DEVICE_CPU), StitchWhileOp);
TFS_REGISTER_KERNEL(Name("StitchWhile").Device(tensorflow::DEVICE_GPU).HostMemory("host_inputs"), StitchWhileOp);

}  // namespace
}  // namespace tf_stitch
