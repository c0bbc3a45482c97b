// StitchOp and StitchStateOp: one node that stands for a region of the user's graph.
#include "op/arrivals.h"
#include "op/converted_regions.h"
#include "op/held_handles.h"
#include "op/launch.h"
#include "cuda/node_types.h"
#include "op/fallback_form.h"
#include "cuda/matmul_settings.h"
#include "op/region_names.h"
#include "op/region_runtime.h"
#include "op/registration.h"
#include "op/runtime_registry.h"
#include "op/shape_key.h"
#include "op/stream_order.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "op/scratch.h"
#include "op/variables.h"

namespace tf_stitch {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

#define TFS_SIGNATURE(name)                  \
  TFS_REGISTER_OP(name)                      \
      .Input("inputs: Tin")                  \
      .Input("variables: N * resource")      \
      .Output("outputs: Tout")               \
      .Attr("Tin: list(type) >= 0")          \
      .Attr("N: int >= 0")                   \
      .Attr("Tout: list(type) >= 0")         \
      .Attr("region: int")                   \
      .Attr("token: int = 0")                \
      .Attr("output_shapes: list(shape) = []") \
      .Attr("module: string = ''")             \
      .Attr("original: string = ''")           \
      .Attr("variable_names: list(string) = []") \
      .Attr("held: list(int) = []")            \
      .Attr("early: list(int) = []")           \
      .Attr("late: list(int) = []")            \
      .SetShapeFn(OutputShapes)

TFS_SIGNATURE("StitchOp");
TFS_SIGNATURE("StitchStateOp").SetIsStateful();

class StitchOp final : public tensorflow::OpKernel {
 public:
  explicit StitchOp(OpKernelConstruction* c)
      : OpKernel(c),
        on_gpu_(c->device_type() == tensorflow::DeviceType(tensorflow::DEVICE_GPU)),
        fallback_(on_gpu_) {
    OP_REQUIRES_OK(c, c->GetAttr("region", &region_));
    OP_REQUIRES_OK(c, c->GetAttr("N", &num_variables_));
    num_inputs_ = c->num_inputs() - num_variables_;
    OP_REQUIRES_OK(c, WithUsersNodes(FindRegion(c), c->def()));
    OP_REQUIRES_OK(c, KeepVariables(c));
    OP_REQUIRES_OK(c, c->GetAttr("early", &early_));
    for (const int output : early_) {
      OP_REQUIRES(c, output >= 0 && output < c->num_outputs(), absl::InvalidArgumentError(absl::StrCat("tf_stitch: ", name(), " has no early output ", output)));
    }
    OP_REQUIRES_OK(c, c->GetAttr("late", &late_));
    for (const int input : late_) {
      OP_REQUIRES(c, input >= 0 && input < num_inputs_, absl::InvalidArgumentError(absl::StrCat("tf_stitch: ", name(), " has no late input ", input)));
    }
    std::vector<DataType> types;
    for (int i = 0; i < num_inputs_; ++i) types.push_back(c->input_type(i));
    for (int i = 0; i < c->num_outputs(); ++i) types.push_back(c->output_type(i));
    OP_REQUIRES_VALUE(signature_, c, Signature(name(), num_inputs_, num_variables_, types));
  }

  ~StitchOp() override {
    if (runtime_ != nullptr) entered_->Leave();
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<CUevent> ready;
    OP_REQUIRES_OK(ctx, WithUsersNodes(Run(ctx, LateInputs(ctx), &ready), def()));
    OP_REQUIRES_OK(ctx, SayRead(ctx));
    ready.resize(early_.size());
    for (std::size_t i = 0; i < early_.size(); ++i) {
      Arrivals::Early().Publish(ctx->mutable_output(early_[i])->data(), ready[i]);
    }
  }

 private:
  // A node in a converted SavedModel has its kernels in a module, and its own nodes as an attribute.
  absl::Status FindRegion(OpKernelConstruction* c) {
    std::string module;
    std::int64_t token = 0;
    TF_RETURN_IF_ERROR(c->GetAttr("module", &module));
    TF_RETURN_IF_ERROR(c->GetAttr("token", &token));
    if (module.empty()) {
      const std::string refused = RefuseRegion(region_, token);
      return refused.empty() ? absl::OkStatus() : absl::InvalidArgumentError("tf_stitch: " + refused);
    }
    if (region_ < 0) return absl::InvalidArgumentError(absl::StrCat("tf_stitch: a module has no region ", region_));
    std::string own_nodes;
    TF_RETURN_IF_ERROR(c->GetAttr("original", &own_nodes));
    std::vector<std::string> names;
    TF_RETURN_IF_ERROR(c->GetAttr("variable_names", &names));
    converted_ = FindConvertedRegion({module, region_, !names.empty(), std::move(own_nodes)});
    return absl::OkStatus();
  }

  // Variables may be named, or held by the function, rather than passed: no handle of theirs is made, passed on and looked
  // up at each call.
  absl::Status KeepVariables(OpKernelConstruction* c) {
    std::vector<std::string> names;
    std::vector<std::int64_t> numbers;
    TF_RETURN_IF_ERROR(c->GetAttr("variable_names", &names));
    TF_RETURN_IF_ERROR(c->GetAttr("held", &numbers));
    if (names.empty() && numbers.empty()) return absl::OkStatus();
    if ((num_variables_ != 0) + !names.empty() + !numbers.empty() != 1) {
      return absl::InvalidArgumentError("tf_stitch: variables are passed, named or held");
    }
    std::vector<tensorflow::ResourceHandle> handles;
    for (const std::int64_t number : numbers) {
      TF_ASSIGN_OR_RETURN(handles.emplace_back(), HeldHandles::Global().Find(number));
    }
    kept_ = names.empty() ? std::make_unique<KeptVariables>(handles) : std::make_unique<KeptVariables>(std::move(names));
    num_variables_ = kept_->size();
    return absl::OkStatus();
  }

  absl::Status FindVariables(OpKernelContext* ctx, VariableSet* variables) {
    return kept_ == nullptr ? variables->Lookup(ctx, num_inputs_, num_variables_) : kept_->Find(ctx, variables);
  }

  std::vector<LateInput> LateInputs(OpKernelContext* ctx) const {
    std::vector<LateInput> found;
    for (const int input : late_) {
      const CUevent event = Arrivals::Late().Take(ctx->input(input).data());
      if (event != nullptr) found.push_back({input, event});
    }
    return found;
  }

  // What wrote a late input may write its memory again, beside the stream, when this call has read it.
  absl::Status SayRead(OpKernelContext* ctx) {
    if (late_.empty()) return absl::OkStatus();
    TF_ASSIGN_OR_RETURN(const Placement placement, Placement::Of(ctx, on_gpu_));
    const std::lock_guard<std::mutex> lock(reading_);
    if (read_.event == nullptr) TF_RETURN_IF_ERROR(read_.Make(placement.stream));
    const ScopedContext current(read_.context);
    TF_RETURN_IF_ERROR(CudaStatus("cuEventRecord", Cuda().EventRecord(read_.event, placement.stream)));
    for (const int input : late_) Arrivals::Read().Publish(ctx->input(input).data(), read_.event);
    return absl::OkStatus();
  }

  // Whether kernels run for sure, untimed: then those that read a late input wait for it by themselves. A fallback's nodes
  // do not, and a wait would count as the kernels' time.
  static bool MayWaitInside(const absl::StatusOr<std::shared_ptr<const Slot>>& found, const VariableSet& variables) {
    return found.ok() && !(*found)->invalid && (*found)->executable != nullptr && (*found)->check.stitched() &&
           (*found)->executable->updated.empty() && !UpdatesDuplicate(**found, variables);
  }

  static absl::Status Await(const Placement& placement, const RegionRuntime& runtime,
                            const std::vector<LateInput>& late) {
    if (late.empty()) return absl::OkStatus();
    const ScopedContext current(runtime.context());
    const std::string error = AwaitOnStream(placement.stream, late);
    return error.empty() ? absl::OkStatus() : absl::InternalError(absl::StrCat("tf_stitch: ", error));
  }

  // `late`: inputs that the stream does not wait for yet. `ready` gets events of the outputs that are early, if they are.
  absl::Status Run(OpKernelContext* ctx, std::vector<LateInput> late, std::vector<CUevent>* ready) {
    TF_ASSIGN_OR_RETURN(const Placement placement, Placement::Of(ctx, on_gpu_));
    TF_ASSIGN_OR_RETURN(RegionRuntime * runtime, Runtime(placement));
    VariableSet variables;
    TF_RETURN_IF_ERROR(FindVariables(ctx, &variables));
    const RegionCall call{ctx, placement, runtime, &variables, ctx->num_inputs(),
                          kept_ == nullptr ? nullptr : &kept_->handles()};
    const absl::StatusOr<std::shared_ptr<const Slot>> found = LockAndFind(ctx, runtime, &variables);
    if (!MayWaitInside(found, variables)) {
      TF_RETURN_IF_ERROR(Await(placement, *runtime, late));
      late.clear();
    }
    if (absl::IsFailedPrecondition(found.status()) && variables.WantValues()) {
      return fallback_.Fallback(call, "a variable has no value yet");
    }
    TF_RETURN_IF_ERROR(found.status());
    const std::shared_ptr<const Slot>& slot = *found;
    if (slot->invalid) {
      return absl::InternalError(absl::StrCat("tf_stitch: bad executable for ", name(), ": ", slot->reason));
    }
    if (slot->executable == nullptr) {
      slot->fallbacks.fetch_add(1, std::memory_order_relaxed);
      return fallback_.Fallback(call, slot->reason);
    }
    if (UpdatesDuplicate(*slot, variables)) {
      return fallback_.Fallback(call, "a variable that it updates is passed to it twice");
    }

    ProfitabilityCheck::Turn turn = slot->check.Begin(placement.stream);
    if (turn.form == Form::kFallback) {
      const std::optional<absl::Status> status = fallback_.Run(call, *slot);
      return status ? *status : Run(ctx, {}, ready);
    }
    if (turn.Beside()) {
      fallback_.Shadow(call, *slot, &turn);
      return Run(ctx, {}, ready);  // variables may have changed meanwhile
    }
    slot->check.Start(placement.stream, &turn);
    bool can_fall_back = false;
    const absl::Status status = Execute(ctx, placement, *runtime, *slot, &variables, late, ready, &can_fall_back);
    if (!status.ok()) TF_RETURN_IF_ERROR(Await(placement, *runtime, late));  // TensorFlow's nodes read them, or another plan
    if (!absl::IsResourceExhausted(status) || !can_fall_back || converted_ != nullptr) {
      return fallback_.AfterKernels(call, *slot, turn, status, can_fall_back);
    }
    std::string least;
    if (Shrink(call, slot, &variables, &least)) {
      slot->check.End(placement.stream, turn, /*ok=*/false);
      return Run(ctx, {}, ready);
    }
    return WithLeast(fallback_.AfterKernels(call, *slot, turn, status, can_fall_back), least);
  }

  // There was no memory for a slot's kernels, and none has run: whether there is an executable that takes less, for what is
  // free once nothing is kept between calls. Unlocks the variables.
  bool Shrink(const RegionCall& call, const std::shared_ptr<const Slot>& slot, VariableSet* variables,
              std::string* least) const {
    Extents extents = ExtentsOf(call.ctx, *variables);
    variables->Unlock();  // Python is called: whoever holds its lock may want a variable
    FallbackForm::DropKept(call);
    extents.memory = MemoryOf(call.ctx);
    return call.runtime->Shrink(slot, extents, least);
  }

  // TensorFlow's error, where its nodes had no memory either, and what the kernels would need.
  static absl::Status WithLeast(const absl::Status& status, const std::string& least) {
    if (!absl::IsResourceExhausted(status) || least.empty()) return status;
    return absl::ResourceExhaustedError(absl::StrCat(status.message(), "\n[tf_stitch] ", least));
  }

  // A kernel instance lives on one device, whose context never changes.
  absl::StatusOr<RegionRuntime*> Runtime(const Placement& placement) {
    RegionRuntime* runtime = runtime_.load(std::memory_order_acquire);
    if (TF_PREDICT_TRUE(runtime != nullptr)) return runtime;
    const std::lock_guard<std::mutex> lock(entering_);
    if (entered_ != nullptr) return entered_.get();
    CUcontext context = nullptr;
    CUdevice device = -1;
    if (on_gpu_) {
      TF_RETURN_IF_ERROR(CudaStatus("cuStreamGetCtx", Cuda().StreamGetCtx(placement.stream, &context)));
      const ScopedContext current(context);
      TF_RETURN_IF_ERROR(CudaStatus("cuCtxGetDevice", Cuda().CtxGetDevice(&device)));
    }
    std::shared_ptr<RegionRuntime> found =
        converted_ == nullptr ? FindRuntime(region_, device, context, signature_)
                              : FindRuntime(converted_, device, context, signature_);
    if (found == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("tf_stitch: ", name(), " has other types than the first node of region ", region_));
    }
    found->Enter();
    entered_ = std::move(found);
    runtime_.store(entered_.get(), std::memory_order_release);
    return entered_.get();
  }

  // Returns with the variables locked as the executable needs it, so that its key still holds.
  absl::StatusOr<std::shared_ptr<const Slot>> LockAndFind(OpKernelContext* ctx, RegionRuntime* runtime,
                                                          VariableSet* variables) const {
    while (true) {
      const bool exclusive = runtime->updates_state.load(std::memory_order_acquire);
      variables->Lock(exclusive);
      TF_RETURN_IF_ERROR(variables->CheckValues(ctx, num_inputs_));
      const ShapeKey key = Key(ctx, *variables);
      std::shared_ptr<const Slot> slot = runtime->Find(key.data(), key.size());
      const bool unnamed = slot != nullptr && RegionRuntime::WantsLabels(*slot);
      if (TF_PREDICT_TRUE(slot != nullptr && (exclusive || !slot->updates_state) && !unnamed)) {
        TF_RETURN_IF_ERROR(CheckVariables(*slot, *variables));
        return slot;
      }
      const Extents extents = slot == nullptr ? ExtentsOf(ctx, *variables) : Extents{};
      variables->Unlock();  // Python is called: whoever holds its lock may want a variable
      if (unnamed) runtime->Label(*slot);
      if (slot != nullptr) continue;
      slot = runtime->Resolve(key.Copy(), extents);
      if (slot == nullptr) return absl::FailedPreconditionError(absl::StrCat(name(), ": ", kNoCallbacks));
    }
  }

  ShapeKey Key(OpKernelContext* ctx, const VariableSet& variables) const {
    ShapeKey key;
    for (int i = 0; i < num_inputs_; ++i) key.Add(ctx->input(i));
    for (int i = 0; i < num_variables_; ++i) key.Add(variables.tensor(i));
    if (on_gpu_) AddMatmulSettings(&key);
    return key;
  }

  Extents ExtentsOf(OpKernelContext* ctx, const VariableSet& variables) const {
    Extents extents;
    extents.on_gpu = on_gpu_;
    extents.memory = MemoryOf(ctx);
    for (int i = 0; i < num_inputs_; ++i) extents.inputs.push_back(ctx->input(i).TotalBytes());
    for (int i = 0; i < num_variables_; ++i) {
      extents.variables.push_back(variables.tensor(i).TotalBytes());
      extents.variable_types.push_back(variables.tensor(i).dtype());
    }
    for (int i = 0; i < ctx->num_outputs(); ++i) {
      extents.output_items.push_back(tensorflow::DataTypeSize(ctx->expected_output_dtype(i)));
    }
    return extents;
  }

  absl::Status CheckVariables(const Slot& slot, const VariableSet& variables) const {
    for (int i = 0; i < num_variables_; ++i) {
      if (variables.tensor(i).dtype() != slot.variable_types[i]) {
        return absl::InvalidArgumentError(absl::StrCat("tf_stitch: variable ", i, " of ", name(), " changed its type"));
      }
    }
    return absl::OkStatus();
  }

  // The kernels take variables for different ones.
  static bool UpdatesDuplicate(const Slot& slot, const VariableSet& variables) {
    for (const StatePlan& plan : slot.executable->state) {
      if (variables.Duplicated(plan.variable)) return true;
    }
    return false;
  }

  // Of the stream, for an executable that has a CUDA graph; null until the profitability check has decided: the region's own
  // nodes may need the memory meanwhile.
  KeptTensors* Kept(const Placement& placement, const Slot& slot) const {
    if (!on_gpu_ || !slot.executable->graph->held() || !slot.check.decided()) return nullptr;
    std::call_once(memory_once_, [&] { memory_ = KeptTensors::Of(placement.stream); });
    return memory_.get();
  }

  // Memory of all that a run leaves: its outputs, and new values of variables, in the buffers of the old ones or others.
  absl::Status AllocateResults(OpKernelContext* ctx, const Placement& placement, const Executable& executable,
                               VariableSet* variables, absl::InlinedVector<Tensor, 4>* fresh, Buffers* buffers) const {
    for (int i = 0; i < static_cast<int>(executable.outputs.size()); ++i) {
      Tensor* output = nullptr;
      TF_RETURN_IF_ERROR(PlantedFault());
      TF_RETURN_IF_ERROR(ctx->allocate_output(i, TensorShape(executable.outputs[i]), &output));
      buffers->outputs.push_back(output->data());
    }
    for (std::size_t i = 0; i < executable.state.size(); ++i) {
      const StatePlan& plan = executable.state[i];
      if (plan.fresh) {
        TF_RETURN_IF_ERROR(VariableSet::AllocateLike(ctx, variables->tensor(plan.variable), &(*fresh)[i]));
      } else {
        TF_RETURN_IF_ERROR(variables->Own(ctx, placement, plan.variable));
      }
      buffers->fresh.push_back((*fresh)[i].data());
    }
    return absl::OkStatus();
  }

  // Before anything runs: the region's own nodes may do without memory that the kernels alone would use, and get what is
  // kept between calls. Reasons are counted by their text: TensorFlow's has other sizes in each call.
  absl::Status WithoutMemory(const absl::Status& status, const Executable& executable, bool* can_fall_back) const {
    if (!absl::IsResourceExhausted(status)) return status;
    *can_fall_back = true;
    std::int64_t scratch = 0, results = 0;
    for (const std::int64_t segment : executable.arena) scratch += segment;
    for (std::size_t i = 0; i < executable.outputs.size(); ++i) {
      std::int64_t bytes = tensorflow::DataTypeSize(output_type(static_cast<int>(i)));
      for (const std::int64_t dim : executable.outputs[i]) bytes *= dim;
      results += bytes;
    }
    return absl::ResourceExhaustedError(absl::StrCat("no memory for the kernels of a region, which take ", scratch,
                                                     " bytes of scratch memory and ", results, " for results"));
  }

  // `can_fall_back`: memory was missing or launching failed, and nothing that a second attempt reads was overwritten.
  absl::Status Execute(OpKernelContext* ctx, const Placement& placement, const RegionRuntime& runtime,
                       const Slot& slot, VariableSet* variables, const std::vector<LateInput>& late,
                       std::vector<CUevent>* ready, bool* can_fall_back) const {
    const Executable& executable = *slot.executable;
    Buffers buffers;
    for (int i = 0; i < num_inputs_; ++i) buffers.inputs.push_back(ctx->input(i).data());
    buffers.barriers = executable.barrier_memory.get();
    std::optional<ScopedContext> current;
    if (on_gpu_) current.emplace(runtime.context());
    absl::InlinedVector<Tensor, 4> fresh(executable.state.size());
    KeptTensors* const kept = Kept(placement, slot);
    const auto others = on_gpu_ && kept == nullptr ? KeptTensors::IfAny(placement.stream) : nullptr;
    Scratch scratch;  // until all is enqueued
    absl::Status had = AllocateResults(ctx, placement, executable, variables, &fresh, &buffers);
    if (had.ok()) had = scratch.Allocate(ctx, placement, executable, kept, others.get(), &buffers);
    if (!had.ok()) {
      for (std::size_t i = 0; i < buffers.outputs.size(); ++i) delete ctx->release_output(static_cast<int>(i)).tensor;
      return WithoutMemory(had, executable, can_fall_back);
    }
    const bool overwrites = std::any_of(executable.state.begin(), executable.state.end(),
                                        [](const StatePlan& plan) { return !plan.fresh; });

    for (int i = 0; i < num_variables_; ++i) buffers.variables.push_back(variables->tensor(i).data());
    for (const Update& update : executable.updated) {
      TF_RETURN_IF_ERROR(CopyBytes(placement, buffers.outputs[update.output], buffers.inputs[update.input],
                                   ctx->input(update.input).TotalBytes()));
    }

    const absl::Status launched =
        Launcher(ctx, placement, buffers).Run(executable, runtime.context(), true, early_, late, ready);
    if (!launched.ok()) {
      *can_fall_back = !overwrites;
      return launched;
    }
    for (std::size_t i = 0; i < executable.state.size(); ++i) {
      if (executable.state[i].fresh) variables->Assign(executable.state[i].variable, fresh[i]);
    }
    return absl::OkStatus();
  }

  const bool on_gpu_;
  std::int64_t region_ = 0;
  int num_inputs_ = 0;
  int num_variables_ = 0;
  std::mutex reading_;
  StreamMark read_;         // of late inputs; guarded by reading_; stays for the life of the process
  std::vector<int> late_;   // inputs that may come when the stream does not wait for them
  std::vector<int> early_;  // outputs that the node's readers may want before the region has ended
  std::shared_ptr<const ConvertedRegion> converted_;  // null: it is a session's
  std::unique_ptr<KeptVariables> kept_;  // null: they are passed
  std::vector<std::int32_t> signature_;
  std::mutex entering_;
  std::shared_ptr<RegionRuntime> entered_;  // once a call has come; guarded by entering_ until runtime_ is set
  std::atomic<RegionRuntime*> runtime_{nullptr};
  FallbackForm fallback_;
  mutable std::once_flag memory_once_;
  mutable std::shared_ptr<KeptTensors> memory_;
};

#define TFS_KERNEL(name)                                                                          \
  TFS_REGISTER_KERNEL(Name(name).Device(tensorflow::DEVICE_CPU), StitchOp);                       \
  TFS_REGISTER_KERNEL(Name(name).Device(tensorflow::DEVICE_GPU).HostMemory("variables"), StitchOp)

TFS_KERNEL("StitchOp");
TFS_KERNEL("StitchStateOp");

}  // namespace
}  // namespace tf_stitch
