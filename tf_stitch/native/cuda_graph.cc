#include "cuda_graph.h"

#include <chrono>

namespace tf_stitch {
namespace {

constexpr int kWarmRuns = 3;
constexpr std::size_t kFewestSteps = 3;  // fewer are as cheap to launch one by one

std::atomic<int> graph_limit{64};
std::atomic<int> live_graphs{0};
std::mutex error_mutex;
std::string last_error;

// Addresses of a step's operands, products' scratch memory included: what the graph has baked in.
std::vector<void*> Arguments(const Step& step, const Buffers& buffers) {
  std::vector<void*> found;
  const auto add = [&](const std::vector<Operand>& operands) {
    for (const Operand& operand : operands) found.push_back(buffers.At(operand));
  };
  if (const auto* launch = std::get_if<GpuLaunch>(&step)) {
    add(launch->args);
  } else if (const auto* gemm = std::get_if<Gemm>(&step)) {
    add(gemm->args);
    found.push_back(buffers.workspace);
  } else if (const auto* fill = std::get_if<Fill>(&step)) {
    add({fill->target});
  } else if (const auto* copy = std::get_if<Copy>(&step)) {
    add({copy->target, copy->source});
  }
  return found;
}

// A kernel node's parameters; `addresses` has to outlive them.
KernelNodeParams Params(const GpuLaunch& launch, std::vector<void*>& arguments, std::vector<void*>* addresses) {
  addresses->clear();
  for (void*& argument : arguments) addresses->push_back(&argument);
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

GraphCounters& GraphStats() {
  static auto* counters = new GraphCounters;
  return *counters;
}

std::string LastGraphError() {
  std::lock_guard<std::mutex> lock(error_mutex);
  return last_error;
}

void SetGraphLimit(int graphs) { graph_limit = graphs; }

StepGraph::~StepGraph() { Release(); }

bool StepGraph::Wanted(const std::vector<Step>& steps) {
  if (failed_ || steps.size() < kFewestSteps) return false;
  if (runs_.load(std::memory_order_relaxed) < kWarmRuns) {
    runs_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  return true;
}

// Whether a graph may be made now.
bool StepGraph::Room(const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    const auto* gemm = std::get_if<Gemm>(&step);
    if (gemm != nullptr && !gemm->gpu->settled()) return false;
  }
  if (live_graphs.fetch_add(1) < graph_limit) return true;
  live_graphs.fetch_sub(1);
  return false;
}

bool StepGraph::Launch(CUcontext context, const std::vector<Step>& steps, const Buffers& buffers, CUstream stream,
                       const RunSteps& run) {
  const auto start = std::chrono::steady_clock::now();
  std::lock_guard<std::mutex> lock(mutex_);
  if (failed_ || (exec_ == nullptr && !Room(steps))) return false;
  std::string error;
  if (exec_ == nullptr) {
    context_ = context;
    error = Make(steps, buffers, run);
    if (exec_ == nullptr) live_graphs.fetch_sub(1);
  } else if (!(buffers == buffers_)) {
    error = Update(steps, buffers, run);
  }
  buffers_ = buffers;
  if (error.empty()) error = CudaError("cuGraphLaunch", Cuda().GraphLaunch(exec_, stream));
  if (!error.empty()) {
    failed_ = true;
    Release();
    GraphStats().failures.fetch_add(1, std::memory_order_relaxed);
    std::lock_guard<std::mutex> words(error_mutex);
    last_error = error;
    return false;
  }
  const auto spent = std::chrono::steady_clock::now() - start;
  GraphStats().launches.fetch_add(1, std::memory_order_relaxed);
  GraphStats().host_ns.fetch_add(std::chrono::nanoseconds(spent).count(), std::memory_order_relaxed);
  return true;
}

std::string StepGraph::Make(const std::vector<Step>& steps, const Buffers& buffers, const RunSteps& run) {
  std::string error = CudaError("cuStreamCreate", Cuda().StreamCreate(&capture_, kStreamNonBlocking));
  if (error.empty()) error = CudaError("cuGraphCreate", Cuda().GraphCreate(&graph_, 0));
  std::vector<void*> addresses;
  CUgraphNode previous = nullptr;
  for (std::size_t i = 0; error.empty() && i < steps.size(); ++i) {
    arguments_.push_back(Arguments(steps[i], buffers));
    const std::size_t before = previous == nullptr ? 0 : 1;
    CUgraphNode node = nullptr;
    if (const auto* launch = std::get_if<GpuLaunch>(&steps[i])) {
      const KernelNodeParams params = Params(*launch, arguments_[i], &addresses);
      error = CudaError("cuGraphAddKernelNode",
                        Cuda().GraphAddKernelNode(&node, graph_, &previous, before, &params));
      if (error.empty() && launch->cooperative) {
        const std::int64_t value[8] = {1};  // CUlaunchAttributeValue
        error = CudaError("cuGraphKernelNodeSetAttribute",
                          Cuda().GraphKernelNodeSetAttribute(node, kNodeCooperative, value));
      }
    } else {
      CUgraph part = nullptr;
      error = Capture(i, run, &part);
      if (error.empty()) {
        error = CudaError("cuGraphAddChildGraphNode",
                          Cuda().GraphAddChildGraphNode(&node, graph_, &previous, before, part));
      }
      if (part != nullptr) Cuda().GraphDestroy(part);
    }
    nodes_.push_back(node);
    previous = node;
  }
  if (error.empty()) error = CudaError("cuGraphInstantiate", Cuda().GraphInstantiate(&exec_, graph_, 0));
  if (error.empty()) GraphStats().graphs.fetch_add(1, std::memory_order_relaxed);
  return error;
}

std::string StepGraph::Update(const std::vector<Step>& steps, const Buffers& buffers, const RunSteps& run) {
  std::string error;
  std::vector<void*> addresses;
  for (std::size_t i = 0; error.empty() && i < steps.size(); ++i) {
    std::vector<void*> arguments = Arguments(steps[i], buffers);
    if (arguments == arguments_[i]) continue;
    arguments_[i] = std::move(arguments);
    GraphStats().updates.fetch_add(1, std::memory_order_relaxed);
    if (const auto* launch = std::get_if<GpuLaunch>(&steps[i])) {
      const KernelNodeParams params = Params(*launch, arguments_[i], &addresses);
      error = CudaError("cuGraphExecKernelNodeSetParams",
                        Cuda().GraphExecKernelNodeSetParams(exec_, nodes_[i], &params));
      continue;
    }
    CUgraph part = nullptr;
    error = Capture(i, run, &part);
    if (error.empty()) {
      error = CudaError("cuGraphExecChildGraphNodeSetParams",
                        Cuda().GraphExecChildGraphNodeSetParams(exec_, nodes_[i], part));
    }
    if (part != nullptr) Cuda().GraphDestroy(part);
  }
  return error;
}

// Steps whose kernels are a library's are recorded on a stream of our own: TensorFlow's takes work of other threads.
std::string StepGraph::Capture(std::size_t step, const RunSteps& run, CUgraph* graph) {
  std::string error = CudaError("cuStreamBeginCapture", Cuda().StreamBeginCapture(capture_, kCaptureRelaxed));
  if (!error.empty()) return error;
  const std::string recorded = run(capture_, step, step + 1);
  error = CudaError("cuStreamEndCapture", Cuda().StreamEndCapture(capture_, graph));
  return recorded.empty() ? error : recorded;
}

void StepGraph::Release() {
  if (context_ == nullptr) return;
  ScopedContext current(context_);
  if (exec_ != nullptr) {
    Cuda().GraphExecDestroy(exec_);
    live_graphs.fetch_sub(1);
  }
  if (graph_ != nullptr) Cuda().GraphDestroy(graph_);
  if (capture_ != nullptr) Cuda().StreamDestroy(capture_);
  exec_ = nullptr;
  graph_ = nullptr;
  capture_ = nullptr;
}

}  // namespace tf_stitch
