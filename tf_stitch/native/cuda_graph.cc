#include "cuda_graph.h"

#include <algorithm>
#include <chrono>

namespace tf_stitch {
namespace {

constexpr int kWarmRuns = 3;
constexpr std::size_t kFewestSteps = 3;  // fewer are as cheap to launch one by one
constexpr std::size_t kInstances = 4;    // of one graph
constexpr std::int64_t kStale = 32;      // launches after which an unused instance may be given other addresses
constexpr std::size_t kAlign = 256;      // bytes, of scratch memory

std::atomic<int> graph_limit{64};
std::atomic<int> live_graphs{0};

// Addresses of a step's operands: what a graph has baked in. Scratch memory moves with the workspace alone.
std::vector<void*> Arguments(const Step& step, const Buffers& buffers) {
  std::vector<void*> found;
  const auto add = [&](const std::vector<Operand>& operands) {
    for (const Operand& operand : operands) found.push_back(buffers.At(operand));
  };
  if (const auto* launch = std::get_if<GpuLaunch>(&step)) {
    add(launch->args);
  } else if (const auto* gemm = std::get_if<Gemm>(&step)) {
    add(gemm->args);
    if (gemm->gpu->workspace_bytes() != 0) found.push_back(buffers.workspace);
  } else if (const auto* fill = std::get_if<Fill>(&step)) {
    add({fill->target});
  } else if (const auto* copy = std::get_if<Copy>(&step)) {
    add({copy->target, copy->source});
  }
  return found;
}

std::vector<std::vector<void*>> AllArguments(const Executable& executable, const Buffers& buffers) {
  std::vector<std::vector<void*>> found;
  found.reserve(executable.steps.size());
  for (const Step& step : executable.steps) found.push_back(Arguments(step, buffers));
  return found;
}

std::int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A kernel node's parameters; `addresses` has to outlive them.
KernelNodeParams Params(const GpuLaunch& launch, std::vector<void*>& arguments, std::vector<void*>* addresses) {
  addresses->clear();
  for (void*& argument : arguments) addresses->push_back(&argument);
  for (const std::int64_t& size : launch.sizes) addresses->push_back(const_cast<std::int64_t*>(&size));
  KernelNodeParams params{};
  params.function = launch.function;
  for (int axis = 0; axis < 3; ++axis) {
    params.grid[axis] = launch.grid[axis];
    params.block[axis] = launch.block[axis];
  }
  params.shared_bytes = launch.dynamic_shared_bytes;
  params.parameters = addresses->data();
  return params;
}

}  // namespace

void SetGraphLimit(int graphs) { graph_limit = graphs; }

std::size_t Executable::WorkspaceBytes() const { return graph->WorkspaceBytes(*this); }

std::size_t StepGraph::WorkspaceBytes(const Executable& executable) {
  if (placed_.load(std::memory_order_acquire)) return workspace_bytes_;
  std::size_t most = 0;
  bool settled = true;
  for (const Step& step : executable.steps) {
    const auto* gemm = std::get_if<Gemm>(&step);
    if (gemm == nullptr) continue;
    settled = settled && gemm->gpu->settled();
    most = std::max(most, gemm->gpu->workspace_bytes());
  }
  if (!settled) return most;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!placed_.load(std::memory_order_relaxed)) {
    PlaceWorkspaces(executable);
    placed_.store(true, std::memory_order_release);
  }
  return workspace_bytes_;
}

StepGraph::~StepGraph() { Release(); }

bool StepGraph::Wanted(const std::vector<Step>& steps) {
  if (failed_ || steps.size() < kFewestSteps) return false;
  if (runs_.load(std::memory_order_relaxed) < kWarmRuns) {
    runs_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  return true;
}

bool StepGraph::Launch(CUcontext context, const Executable& executable, const Buffers& buffers, CUstream stream,
                       const RunStepOn& run) {
  const std::int64_t start = Now();
  std::lock_guard<std::mutex> lock(mutex_);
  if (failed_) return false;
  std::string error;
  if (graph_ == nullptr) {
    if (!Ready(buffers)) return false;
    context_ = context;
    error = Make(executable, buffers, run);
  }
  if (buffers.workspace_bytes < workspace_bytes_) return false;
  const bool known = error.empty() && FindKnown(buffers);
  const bool more = !known && instances_.size() < kInstances;
  if (error.empty() && more) error = Instantiate();
  const std::int64_t made = more ? Now() : start;
  if (error.empty() && !known) {
    Arguments wanted = AllArguments(executable, buffers);
    if (!more) instances_.splice(instances_.begin(), instances_, Replaceable(wanted));
    error = Update(&instances_.front(), executable, buffers, std::move(wanted), run);
  }
  if (error.empty()) error = CudaError("cuGraphLaunch", Cuda().GraphLaunch(instances_.front().exec, stream));
  if (!error.empty()) {
    failed_ = true;
    Release();
    counters_.Failed(error);
    return false;
  }
  instances_.front().used = ++launches_;
  const std::int64_t spent = Now() - made;
  counters_.making_ns.fetch_add(made - start, std::memory_order_relaxed);
  counters_.launches.fetch_add(1, std::memory_order_relaxed);
  counters_.host_ns.fetch_add(spent, std::memory_order_relaxed);
  if (known) {
    counters_.known.fetch_add(1, std::memory_order_relaxed);
    counters_.known_ns.fetch_add(spent, std::memory_order_relaxed);
  }
  return true;
}

// Whether a graph may be made now: by a run that began when all products were settled.
bool StepGraph::Ready(const Buffers& buffers) const {
  if (!placed_.load(std::memory_order_acquire) || buffers.workspace_bytes < workspace_bytes_) return false;
  if (live_graphs.fetch_add(1) < graph_limit) return true;
  live_graphs.fetch_sub(1);
  return false;
}

// Products that may run side by side need scratch memory each; those that follow each other share. Where that is too
// much, one waits for the others.
void StepGraph::PlaceWorkspaces(const Executable& executable) {
  const std::size_t most = GemmWorkspaceBytes(executable.bytes);
  const std::size_t steps = executable.steps.size();
  after_ = executable.after;
  workspace_.assign(steps, 0);
  std::vector<std::vector<bool>> earlier(steps, std::vector<bool>(steps));  // all steps that a step comes after
  std::vector<std::size_t> bytes(steps);
  const auto follow = [&](std::size_t i, std::size_t j) {
    for (std::size_t k = 0; k < j; ++k) earlier[i][k] = earlier[i][k] || earlier[j][k];
    earlier[i][j] = true;
  };
  for (std::size_t i = 0; i < steps; ++i) {
    for (int j : after_[i]) follow(i, j);
    const auto* gemm = std::get_if<Gemm>(&executable.steps[i]);
    if (gemm == nullptr || gemm->gpu->workspace_bytes() == 0) continue;
    bytes[i] = (gemm->gpu->workspace_bytes() + kAlign - 1) / kAlign * kAlign;
    std::vector<std::pair<std::size_t, std::size_t>> taken;  // by products beside this one: begin, step
    for (std::size_t j = 0; j < i; ++j) {
      if (bytes[j] != 0 && !earlier[i][j]) taken.emplace_back(workspace_[j], j);
    }
    std::sort(taken.begin(), taken.end());
    std::size_t offset = 0;
    for (const auto& [begin, j] : taken) {
      if (begin >= offset + bytes[i]) break;
      offset = std::max(offset, begin + bytes[j]);
    }
    if (offset + bytes[i] > most) {
      offset = 0;
      for (const auto& [begin, j] : taken) {
        if (begin >= bytes[i]) break;
        after_[i].push_back(static_cast<int>(j));
        follow(i, j);
      }
    }
    workspace_[i] = offset;
    workspace_bytes_ = std::max(workspace_bytes_, offset + bytes[i]);
  }
}

std::string StepGraph::Make(const Executable& executable, const Buffers& buffers, const RunStepOn& run) {
  arguments_ = AllArguments(executable, buffers);
  std::string error = CudaError("cuStreamCreate", Cuda().StreamCreate(&capture_, kStreamNonBlocking));
  if (error.empty()) error = CudaError("cuGraphCreate", Cuda().GraphCreate(&graph_, 0));
  for (std::size_t i = 0; error.empty() && i < executable.steps.size(); ++i) {
    std::vector<CUgraphNode> before;
    for (int j : after_[i]) {
      if (std::find(before.begin(), before.end(), nodes_[j]) == before.end()) before.push_back(nodes_[j]);
    }
    CUgraphNode node = nullptr;
    error = AddNode(executable.steps[i], before, arguments_[i], workspace_[i], run, &node);
    nodes_.push_back(node);
  }
  if (error.empty()) counters_.graphs.fetch_add(1, std::memory_order_relaxed);
  return error;
}

std::string StepGraph::AddNode(const Step& step, const std::vector<CUgraphNode>& before, std::vector<void*>& arguments,
                               std::size_t workspace, const RunStepOn& run, CUgraphNode* node) {
  if (const auto* launch = std::get_if<GpuLaunch>(&step)) {
    std::vector<void*> addresses;
    const KernelNodeParams params = Params(*launch, arguments, &addresses);
    const std::string error = CudaError(
        "cuGraphAddKernelNode", Cuda().GraphAddKernelNode(node, graph_, before.data(), before.size(), &params));
    if (!error.empty() || !launch->cooperative) return error;
    const std::int64_t value[8] = {1};  // CUlaunchAttributeValue
    return CudaError("cuGraphKernelNodeSetAttribute",
                     Cuda().GraphKernelNodeSetAttribute(*node, kNodeCooperative, value));
  }
  CUgraph part = nullptr;
  std::string error = Capture(step, workspace, run, &part);
  if (error.empty()) {
    error = CudaError("cuGraphAddChildGraphNode",
                      Cuda().GraphAddChildGraphNode(node, graph_, before.data(), before.size(), part));
  }
  if (part != nullptr) Cuda().GraphDestroy(part);
  return error;
}

bool StepGraph::FindKnown(const Buffers& buffers) {
  const auto it = std::find_if(instances_.begin(), instances_.end(),
                               [&](const Instance& instance) { return instance.buffers == buffers; });
  if (it == instances_.end()) return false;
  instances_.splice(instances_.begin(), instances_, it);
  return true;
}

std::string StepGraph::Instantiate() {
  CUgraphExec exec = nullptr;
  const std::string error = CudaError("cuGraphInstantiate", Cuda().GraphInstantiate(&exec, graph_, 0));
  if (!error.empty()) return error;
  counters_.instances.fetch_add(1, std::memory_order_relaxed);
  instances_.push_front({exec, {}, arguments_});
  return "";
}

std::list<StepGraph::Instance>::iterator StepGraph::Replaceable(const Arguments& wanted) {
  if (launches_ - instances_.back().used > kStale) return std::prev(instances_.end());
  const auto others = [&](const Instance& instance) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) count += instance.arguments[i] != wanted[i];
    return count;
  };
  return std::min_element(instances_.begin(), instances_.end(),
                          [&](const Instance& a, const Instance& b) { return others(a) < others(b); });
}

std::string StepGraph::Update(Instance* instance, const Executable& executable, const Buffers& buffers,
                              Arguments wanted, const RunStepOn& run) {
  std::string error;
  std::vector<void*> addresses;
  for (std::size_t i = 0; error.empty() && i < executable.steps.size(); ++i) {
    if (wanted[i] == instance->arguments[i]) continue;
    const Step& step = executable.steps[i];
    instance->arguments[i] = std::move(wanted[i]);
    counters_.updates.fetch_add(1, std::memory_order_relaxed);
    if (const auto* launch = std::get_if<GpuLaunch>(&step)) {
      const KernelNodeParams params = Params(*launch, instance->arguments[i], &addresses);
      error = CudaError("cuGraphExecKernelNodeSetParams",
                        Cuda().GraphExecKernelNodeSetParams(instance->exec, nodes_[i], &params));
      continue;
    }
    CUgraph part = nullptr;
    error = Capture(step, workspace_[i], run, &part);
    if (error.empty()) {
      error = CudaError("cuGraphExecChildGraphNodeSetParams",
                        Cuda().GraphExecChildGraphNodeSetParams(instance->exec, nodes_[i], part));
    }
    if (part != nullptr) Cuda().GraphDestroy(part);
  }
  instance->buffers = buffers;
  return error;
}

// Steps whose kernels are a library's are recorded on a stream of our own: TensorFlow's takes work of other threads.
std::string StepGraph::Capture(const Step& step, std::size_t workspace, const RunStepOn& run, CUgraph* graph) {
  std::string error = CudaError("cuStreamBeginCapture", Cuda().StreamBeginCapture(capture_, kCaptureRelaxed));
  if (!error.empty()) return error;
  const std::string recorded = run(capture_, step, workspace);
  error = CudaError("cuStreamEndCapture", Cuda().StreamEndCapture(capture_, graph));
  return recorded.empty() ? error : recorded;
}

void StepGraph::Release() {
  if (context_ == nullptr) return;
  ScopedContext current(context_);
  for (const Instance& instance : instances_) Cuda().GraphExecDestroy(instance.exec);
  instances_.clear();
  if (graph_ != nullptr) {
    Cuda().GraphDestroy(graph_);
    live_graphs.fetch_sub(1);
  }
  if (capture_ != nullptr) Cuda().StreamDestroy(capture_);
  graph_ = nullptr;
  capture_ = nullptr;
}

}  // namespace tf_stitch
