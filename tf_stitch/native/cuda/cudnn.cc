// Convolutions through operation graphs of cuDNN 9.
#include "cuda/cudnn.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <tuple>
#include <utility>

#include "cuda/convolution_graph.h"
#include "cuda/cudnn_handles.h"
#include "cuda/cudnn_plans.h"
#include "cuda/gpu_timer.h"
#include "cuda/shared_calls.h"
#include "op/element_types.h"
#include "tensorflow/core/platform/tensor_float_32_utils.h"
#include "tensorflow/core/util/determinism.h"

namespace tf_stitch {
namespace {

constexpr std::size_t kProposals = 6;  // that are tried against each other
constexpr std::int64_t kMostConfigs = 64;
constexpr float kWorthMemory = 0.9F;  // of the time of what fits the usual scratch memory, at most
constexpr std::size_t kMostConvolutions = 512;  // that are shared, of some hundred kB each

using Key = std::tuple<CUcontext, ConvolutionSpec, unsigned, unsigned, std::size_t, std::size_t, bool, bool>;

SharedCalls<Key>& Shared() {
  static auto* calls = new SharedCalls<Key>(kMostConvolutions);  // contexts die before static destructors run
  return *calls;
}

using Sizes = std::vector<std::int64_t>;

std::string Times(const Sizes& sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

std::string Words(const ConvolutionSpec& spec) {
  const char* const kinds[] = {"a convolution", "an input gradient of a convolution",
                               "a filter gradient of a convolution"};
  return std::string(kinds[static_cast<int>(spec.pass)]) + " of " + std::to_string(spec.n) + " x " +
         Times(spec.image) + " x " + std::to_string(spec.c) + " by " + std::to_string(spec.k) + " filters of " +
         Times(spec.window) + (spec.bias ? " and what follows it" : "");
}

class Convolution final : public DeviceCall {
 public:
  Convolution(const DnnLibrary& dnn, SharedHandle* handle, const ConvolutionSpec& spec, const CallSite& site, bool tf32,
              bool deterministic)
      : dnn_(dnn), handle_(*handle), spec_(spec), site_(site), tensors_(ConvolutionTensors(spec)), tf32_(tf32),
        deterministic_(deterministic), settled_(deterministic) {}

  std::string Prepare() {
    if (DnnDataType(spec_.type) < 0) return "cuDNN has no convolutions of this type";
    std::lock_guard<std::mutex> lock(handle_.mutex);
    const ConvolutionGraph graph = BuildConvolution(dnn_, handle_.handle, spec_, site_.unaligned);
    if (!graph.error.empty()) return graph.error;
    Propose(*graph.graph, kDnnModeA);
    if (plans_.empty() && !spec_.bias) Propose(*graph.graph, kDnnModeFallback);
    return plans_.empty() ? "cuDNN has no kernel for " + Words(spec_) : "";
  }

  bool settled() const override { return settled_.load(std::memory_order_acquire); }

  std::size_t workspace_bytes() const override {
    if (settled()) return plans_[chosen_].workspace;
    std::size_t most = 0;  // a run may try them all
    for (const DnnPlan& plan : plans_) most = std::max(most, plan.workspace);
    return most;
  }

  std::string Run(CUstream stream, void* const* arguments, void* workspace, bool trial) override {
    if (trial && !settled()) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!settled()) {
        Tune(stream, arguments, workspace);
        settled_.store(true, std::memory_order_release);
      }
    }
    if (settled()) return Launch(plans_[chosen_], stream, arguments, workspace);
    std::string error;
    for (const DnnPlan& plan : plans_) {  // the first one that the library does not refuse
      error = Launch(plan, stream, arguments, workspace);
      if (error.empty()) break;
    }
    return error;
  }

 private:
  // Adds plans of the configurations that a heuristic names, the fastest by its judgement first: as many as are tried,
  // of those that fit ample scratch memory, and one that fits the usual one; or the one that needs least.
  void Propose(const Descriptor& graph, int mode) {
    const std::vector<Descriptor> configs = DnnConfigurations(dnn_, graph, mode, kMostConfigs);
    const std::size_t wanted = deterministic_ ? 1 : kProposals;
    std::vector<DnnPlan> smallest, made;
    const std::size_t most = std::max(site_.workspace, site_.ample);
    bool compile = spec_.groups > 1, frugal = deterministic_;
    for (const Descriptor& config : configs) {
      if (plans_.size() >= wanted && frugal) break;
      if (!IsAllowed(config, std::exchange(compile, false))) continue;
      made.clear();
      AddDnnPlan(dnn_, handle_.handle, config, &made);
      if (made.empty()) continue;
      DnnPlan plan = std::move(made.front());
      const bool fits = plan.workspace <= site_.workspace;
      if (fits || (plan.workspace <= most && plans_.size() < wanted)) {
        frugal = frugal || fits;
        plans_.push_back(std::move(plan));
      } else if (smallest.empty() || plan.workspace < smallest.front().workspace) {
        smallest.clear();
        smallest.push_back(std::move(plan));
      }
    }
    if (plans_.empty()) plans_.swap(smallest);
  }

  // Whether an engine computes as exactly as TensorFlow asks, the same in each run if it asks for that, and need not be
  // compiled first, unless `compile`: which takes some 0.2 s, and for groups of a channel, where the heuristic names such
  // an engine first, makes kernels that others take 3.6 to 19 times as long as (docs/decisions/convolutions.md).
  bool IsAllowed(const Descriptor& config, bool compile) const {
    Descriptor engine(dnn_, kDnnEngine);
    DnnDescriptor room = engine.get();
    if (config.Get(kDnnConfigEngine, kDnnIsDescriptor, &room, 1) != 1) return false;
    const auto has = [&](int name, int type, int most, int wanted) {
      std::vector<int> notes(most);
      const std::int64_t count = engine.Get(name, type, notes.data(), most);
      const auto end = notes.begin() + std::clamp<std::int64_t>(count, 0, most);
      return std::find(notes.begin(), end, wanted) != end;
    };
    const auto noted = [&](int note) {
      return has(kDnnEngineNumericalNotes, kDnnIsNumericalNote, kDnnNumericalNotes, note);
    };
    const auto compiled = [&] {
      return has(kDnnEngineBehaviorNotes, kDnnIsBehaviorNote, kDnnBehaviorNotes, kDnnCompiledAtRunTime);
    };
    if (!compile && compiled()) return false;
    // What follows a convolution has another way, and an engine for anything took 60 times as long as others.
    if (spec_.bias && noted(kDnnStrictNan)) return false;
    if (deterministic_ && noted(kDnnNondeterministic)) return false;
    if (spec_.type != kFloat) return true;
    return !noted(kDnnDownConvertsInputs) && (tf32_ || !noted(kDnnTensorCore));
  }

  // Keeps the plan that runs fastest, of those with much scratch memory one that is worth it; the library's first one
  // where none can be tried.
  void Tune(CUstream stream, void* const* arguments, void* workspace) {
    if (plans_.size() < 2) return;
    std::vector<GpuTimer::Memory> hot;
    for (std::size_t i = 0; i + 1 < tensors_.size(); ++i) {
      if ((site_.cold >> i & 1) == 0) hot.emplace_back(arguments[i], ConvolutionBytes(spec_, i));
    }
    const GpuTimer timer(stream, std::move(hot));
    float best = std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      float time = timer.Time([&] { return Launch(plans_[i], stream, arguments, workspace).empty(); });
      if (plans_[i].workspace > site_.workspace) time /= kWorthMemory;
      if (time < best) {
        best = time;
        chosen_ = i;
      }
    }
  }

  std::string Launch(const DnnPlan& plan, CUstream stream, void* const* arguments, void* workspace) const {
    return RunDnnPlan(dnn_, &handle_, plan, stream, tensors_, arguments, workspace);
  }

  const DnnLibrary& dnn_;
  SharedHandle& handle_;
  const ConvolutionSpec spec_;
  const CallSite site_;
  const std::vector<std::int64_t> tensors_;  // numbers, of arguments
  const bool tf32_, deterministic_;
  std::atomic<bool> settled_;
  std::vector<DnnPlan> plans_;
  std::size_t chosen_ = 0;
  std::mutex mutex_;
};

class ConvolutionCall final : public LibraryCall {
 public:
  explicit ConvolutionCall(const ConvolutionSpec& spec) : spec_(spec) {}

  int arguments() const override { return 3 + spec_.bias + spec_.addend; }

  std::string RunOnHost(void* const*, tsl::thread::ThreadPool*) const override {
    return "convolutions on a CPU are no library's";
  }

  std::string Prepare(CUcontext context, const CallSite& site, std::shared_ptr<DeviceCall>* call) const override {
    return FindConvolution(context, spec_, site, call);
  }

 private:
  const ConvolutionSpec spec_;
};

}  // namespace

std::shared_ptr<const LibraryCall> MakeCall(const ConvolutionSpec& spec) {
  if (spec.c % spec.groups != 0 || spec.k % spec.groups != 0) {
    throw std::invalid_argument("channels of a convolution do not fall into its groups");
  }
  const std::size_t axes = spec.image.size();
  for (const Sizes* along : {&spec.window, &spec.windows, &spec.strides, &spec.dilations, &spec.padding}) {
    if (along->size() != axes) throw std::invalid_argument("a convolution's sizes are of different axes");
  }
  if (axes < 2 || axes > 3) throw std::invalid_argument("a convolution of " + std::to_string(axes) + " axes");
  const bool rectified = spec.activation == Activation::kRelu;
  if (!rectified && spec.activation != Activation::kNone) {
    throw std::invalid_argument("a convolution with this activation");
  }
  if (spec.bias ? spec.pass != ConvolutionPass::kForward : spec.addend || rectified) {
    throw std::invalid_argument("only a bias follows a convolution, and then more");
  }
  return std::make_shared<ConvolutionCall>(spec);
}

std::string FindConvolution(CUcontext context, const ConvolutionSpec& spec, const CallSite& site,
                            std::shared_ptr<DeviceCall>* call) {
  Cudnn dnn;
  const std::string missing = FindCudnn(context, &dnn);
  if (!missing.empty()) return missing;
  const bool tf32 = tsl::tensor_float_32_execution_enabled(), deterministic = tensorflow::OpDeterminismRequired();
  const Key key{context, spec, site.cold, site.unaligned, site.workspace, site.ample, tf32, deterministic};
  const auto make = [&] {
    return std::make_shared<Convolution>(*dnn.library, dnn.handle, spec, site, tf32, deterministic);
  };
  return Shared().Find(key, make, call);
}

}  // namespace tf_stitch
