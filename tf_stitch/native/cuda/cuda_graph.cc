#include "cuda/cuda_graph.h"

#include <algorithm>
#include <chrono>

namespace tf_stitch {
namespace {

constexpr int kWarmRuns = 3;
constexpr std::size_t kFewestSteps = 3;  // fewer are as cheap to launch one by one
constexpr std::size_t kInstances = 4;    // of one graph
constexpr std::int64_t kStale = 32;      // launches after which an unused instance may be given other addresses
constexpr std::size_t kAlign = 256;      // bytes, of scratch memory

std::atomic<bool> programmatic_edges{true};

// Addresses of a step's operands: what a graph has baked in. Scratch memory moves with the workspace alone.
std::vector<void*> Arguments(const Step& step, const Buffers& buffers) {
  std::vector<void*> found;
  const auto add = [&](const std::vector<Operand>& operands) {
    for (const Operand& operand : operands) found.push_back(buffers.At(operand));
  };
  if (const auto* launch = std::get_if<GpuLaunch>(&step)) {
    add(launch->args);
  } else if (const auto* call = std::get_if<LibraryStep>(&step)) {
    add(call->args);
    if (call->on_device->workspace_bytes() != 0) found.push_back(buffers.workspace);
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

bool Touches(const std::vector<Operand>& operands, Space space, int index) {
  return std::any_of(operands.begin(), operands.end(), [space, index](const Operand& operand) {
    return operand.space == space && operand.index == index;
  });
}

// Whether a step reads or writes an output, or reads an input.
bool Touches(const Step& step, Space space, int index) {
  if (const auto* copy = std::get_if<Copy>(&step)) return Touches({copy->target, copy->source}, space, index);
  if (const auto* call = std::get_if<LibraryStep>(&step)) return Touches(call->args, space, index);
  const auto* launch = std::get_if<GpuLaunch>(&step);
  return launch != nullptr && Touches(launch->args, space, index);
}

std::int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void SetGraphs(int limit, bool programmatic) {
  GraphPlaces::SetLimit(limit);
  programmatic_edges = programmatic;
}

std::size_t Executable::WorkspaceBytes() const { return graph->WorkspaceBytes(*this); }

std::size_t StepGraph::WorkspaceBytes(const Executable& executable) {
  if (placed_.load(std::memory_order_acquire)) return workspace_bytes_;
  std::size_t most = 0;
  bool settled = true;
  for (const Step& step : executable.steps) {
    const auto* call = std::get_if<LibraryStep>(&step);
    if (call == nullptr) continue;
    settled = settled && call->on_device->settled();
    most = std::max(most, call->on_device->workspace_bytes());
  }
  if (!settled) return most;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!placed_.load(std::memory_order_relaxed)) {
    PlaceWorkspaces(executable);
    placed_.store(true, std::memory_order_release);
  }
  return workspace_bytes_;
}

StepGraph::~StepGraph() {
  places_.Leave(this);
  Release();
}

void StepGraph::GiveUp() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (graph_ == nullptr) return;
  Release();  // instances that still run are freed when they have
  counters_.given_up.fetch_add(1, std::memory_order_relaxed);
}

bool StepGraph::CountRun() {
  if (runs_.load(std::memory_order_relaxed) <= kWarmRuns) runs_.fetch_add(1, std::memory_order_relaxed);
  return runs_.load(std::memory_order_relaxed) >= kWarmRuns;
}

bool StepGraph::Wanted(const std::vector<Step>& steps) {
  if (failed_ || steps.size() < kFewestSteps || runs_.load(std::memory_order_relaxed) <= kWarmRuns) return false;
  return placed_.load(std::memory_order_acquire) && places_.Ask(this);
}

bool StepGraph::Launch(CUcontext context, const Executable& executable, const Buffers& buffers, CUstream stream,
                       const std::vector<int>& early, const std::vector<LateInput>& late, const RunStepOn& run) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (LaunchHere(context, executable, buffers, stream, early, late, run)) return true;
  }
  if (failed_) places_.Leave(this);  // not with the lock: who takes a place away waits for it
  return false;
}

bool StepGraph::LaunchHere(CUcontext context, const Executable& executable, const Buffers& buffers, CUstream stream,
                           const std::vector<int>& early, const std::vector<LateInput>& late, const RunStepOn& run) {
  const std::int64_t start = Now();
  if (failed_ || !held() || buffers.workspace_bytes < workspace_bytes_) return false;
  std::string error;
  const bool first = graph_ == nullptr;
  if (first) {
    context_ = context;
    error = Make(executable, buffers, early, late, run);
  }
  const bool known = error.empty() && FindKnown(buffers);
  const bool more = !known && instances_.size() < kInstances;
  if (error.empty() && more) error = Instantiate();
  const std::int64_t made = first || more ? Now() : start;
  if (error.empty() && !known) {
    Arguments wanted = AllArguments(executable, buffers);
    if (!more) instances_.splice(instances_.begin(), instances_, Replaceable(wanted));
    error = Update(&instances_.front(), executable, buffers, std::move(wanted), run);
  }
  if (error.empty()) error = AwaitLate(stream, late);
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

// Library calls that may run side by side need scratch memory each; those that follow each other share. Where that is too
// much, one waits for the others.
void StepGraph::PlaceWorkspaces(const Executable& executable) {
  const std::size_t most = CallWorkspaceBytes(executable.bytes);
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
    const auto* call = std::get_if<LibraryStep>(&executable.steps[i]);
    if (call == nullptr || call->on_device->workspace_bytes() == 0) continue;
    bytes[i] = (call->on_device->workspace_bytes() + kAlign - 1) / kAlign * kAlign;
    std::vector<std::pair<std::size_t, std::size_t>> taken;  // by calls beside this one: begin, step
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

// The graph with its first instance. Where a driver refuses programmatic edges, the graph has full ones.
std::string StepGraph::Make(const Executable& executable, const Buffers& buffers, const std::vector<int>& early,
                            const std::vector<LateInput>& late, const RunStepOn& run) {
  arguments_ = AllArguments(executable, buffers);
  std::string error = CudaError("cuStreamCreate", Cuda().StreamCreate(&capture_, kStreamNonBlocking));
  std::int64_t edges = 0;
  if (error.empty()) error = Build(executable, early, late, run, programmatic_edges, &edges);
  if (!error.empty() && edges != 0) {
    counters_.Refused(error);
    DestroyGraph();
    edges = 0;
    error = Build(executable, early, late, run, false, &edges);
  }
  if (!error.empty()) return error;
  instances_.front().buffers = buffers;
  counters_.graphs.fetch_add(1, std::memory_order_relaxed);
  counters_.programmatic.fetch_add(edges, std::memory_order_relaxed);
  return "";
}

// Nodes that record or wait for events stand beside the steps that they belong to in the order in which nodes are made: a
// driver puts nodes into queues in that order, and what stands in a queue begins when all before it there has. With the
// events last, an event of the first eighth of a graph was there after two thirds of it (two H200s).
std::string StepGraph::Build(const Executable& executable, const std::vector<int>& early,
                             const std::vector<LateInput>& late, const RunStepOn& run, bool programmatic,
                             std::int64_t* edges) {
  std::string error = CudaError("cuGraphCreate", Cuda().GraphCreate(&graph_, 0));
  late_ = late;
  waits_.assign(late.size(), nullptr);
  ready_.resize(early.size());
  for (std::size_t i = 0; error.empty() && i < executable.steps.size(); ++i) {
    error = AddNodes(executable.steps[i], arguments_[i], workspace_[i], run, &nodes_.emplace_back());
    std::vector<int> before = after_[i];
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (int j : before) {
      if (error.empty()) error = AddEdge(graph_, nodes_[j], nodes_[i], programmatic, edges);
    }
    if (error.empty()) error = AddWaits(executable.steps[i], nodes_[i]);
    if (error.empty()) error = AddEvents(executable, i, early);
  }
  return error.empty() ? Instantiate() : error;
}

std::string StepGraph::AddEvents(const Executable& executable, std::size_t step, const std::vector<int>& early) {
  std::string error;
  for (std::size_t i = 0; error.empty() && i < early.size(); ++i) {
    const auto touches = [&](std::size_t j) { return Touches(executable.steps[j], Space::kOutput, early[i]); };
    bool last = touches(step);
    for (std::size_t j = step + 1; last && j < executable.steps.size(); ++j) last = !touches(j);
    if (!last) continue;
    std::vector<const StepNodes*> after;
    for (std::size_t j = 0; j <= step; ++j) {
      if (touches(j)) after.push_back(&nodes_[j]);
    }
    if (ready_[i] == nullptr) error = CudaError("cuEventCreate", Cuda().EventCreate(&ready_[i], kEventWithoutTime));
    if (error.empty()) error = AddEvent(graph_, ready_[i], after);
  }
  return error;
}

std::string StepGraph::AddWaits(const Step& step, const StepNodes& nodes) {
  std::string error;
  for (std::size_t i = 0; error.empty() && i < late_.size(); ++i) {
    if (!Touches(step, Space::kInput, late_[i].input)) continue;
    if (waits_[i] == nullptr) error = AddWait(graph_, late_[i].event, &waits_[i]);
    if (error.empty()) error = LetWait(graph_, waits_[i], nodes);
  }
  return error;
}

std::string StepGraph::AwaitLate(CUstream stream, const std::vector<LateInput>& late) {
  Instance& instance = instances_.front();
  if (instance.late == late) return "";
  const bool same = std::equal(late.begin(), late.end(), instance.late.begin(), instance.late.end(),
                               [](const LateInput& a, const LateInput& b) { return a.input == b.input; });
  if (!same) return AwaitOnStream(stream, late);  // what its nodes wait for has been there before
  std::string error;
  for (std::size_t i = 0; error.empty() && i < late.size(); ++i) {
    if (instance.late[i] == late[i] || waits_[i] == nullptr) continue;
    error = CudaError("cuGraphExecEventWaitNodeSetEvent",
                      Cuda().GraphExecEventWaitNodeSetEvent(instance.exec, waits_[i], late[i].event));
  }
  instance.late = late;
  return error;
}

std::string StepGraph::AddNodes(const Step& step, std::vector<void*>& arguments, std::size_t workspace,
                                const RunStepOn& run, StepNodes* added) {
  if (const auto* launch = std::get_if<GpuLaunch>(&step)) return AddLaunch(graph_, *launch, arguments, added);
  CUgraph recorded = nullptr;
  std::string error = Capture(step, workspace, run, &recorded);
  if (error.empty()) error = AddRecorded(graph_, recorded, added);
  if (recorded != nullptr) Cuda().GraphDestroy(recorded);
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
  instances_.push_front({exec, {}, arguments_, late_});
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
  for (std::size_t i = 0; error.empty() && i < executable.steps.size(); ++i) {
    if (wanted[i] == instance->arguments[i]) continue;
    const Step& step = executable.steps[i];
    instance->arguments[i] = std::move(wanted[i]);
    counters_.updates.fetch_add(1, std::memory_order_relaxed);
    if (const auto* launch = std::get_if<GpuLaunch>(&step)) {
      error = UpdateLaunch(instance->exec, nodes_[i], *launch, instance->arguments[i]);
      continue;
    }
    CUgraph recorded = nullptr;
    error = Capture(step, workspace_[i], run, &recorded);
    if (error.empty()) error = UpdateRecorded(instance->exec, nodes_[i], recorded);
    if (recorded != nullptr) Cuda().GraphDestroy(recorded);
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
  DestroyGraph();
  if (capture_ != nullptr) Cuda().StreamDestroy(capture_);
  capture_ = nullptr;
}

void StepGraph::DestroyGraph() {
  if (graph_ != nullptr) Cuda().GraphDestroy(graph_);
  graph_ = nullptr;
  nodes_.clear();
  waits_.clear();
}

}  // namespace tf_stitch
