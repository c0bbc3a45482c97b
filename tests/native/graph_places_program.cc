// Prints which executables of a region have CUDA graphs as they run, with a driver that only keeps books.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cuda/cuda_graph.h"

namespace tf_stitch {

struct CUgraph_st {};
struct CUgraphExec_st {};

namespace {

int live = 0;  // instances
int made = 0;
bool can_make = true;
bool verbose = false;  // whether nodes are printed as they are made, with the events that they record or wait for
std::size_t events = 0, nodes = 0;

template <typename T>
int Number(T* pointer) {
  return static_cast<int>(reinterpret_cast<std::size_t>(pointer));
}

CudaDriver FakeDriver() {
  CudaDriver driver{};
  driver.loaded = true;
  driver.CtxGetCurrent = [](CUcontext* context) { return *context = nullptr, 0; };
  driver.CtxPushCurrent = [](CUcontext) { return 0; };
  driver.CtxPopCurrent = [](CUcontext*) { return 0; };
  driver.StreamCreate = [](CUstream*, unsigned) { return 0; };
  driver.StreamDestroy = [](CUstream) { return 0; };
  driver.GraphCreate = [](CUgraph* graph, unsigned) { return *graph = new CUgraph_st, 0; };
  driver.GraphDestroy = [](CUgraph graph) { return delete graph, 0; };
  driver.GraphAddKernelNode = [](CUgraphNode* node, CUgraph, const CUgraphNode*, std::size_t, const KernelNodeParams*) {
    *node = reinterpret_cast<CUgraphNode>(++nodes);
    return verbose ? std::printf(" kernel %d,", Number(*node)), 0 : 0;
  };
  driver.GraphAddDependencies = [](CUgraph, const CUgraphNode* from, const CUgraphNode* to, std::size_t) {
    return verbose ? std::printf(" %d before %d,", Number(*from), Number(*to)), 0 : 0;
  };
  driver.GraphInstantiate = [](CUgraphExec* exec, CUgraph, unsigned long long) {
    if (!can_make) return 1;
    ++live, ++made;
    return *exec = new CUgraphExec_st, 0;
  };
  driver.GraphExecDestroy = [](CUgraphExec exec) { return --live, delete exec, 0; };
  driver.GraphLaunch = [](CUgraphExec, CUstream) { return verbose ? std::printf(" launch,"), 0 : 0; };
  driver.EventCreate = [](CUevent* event, unsigned) { return *event = reinterpret_cast<CUevent>(++events), 0; };
  driver.GraphAddEventRecordNode = [](CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t count, CUevent event) {
    return std::printf(" event %d after %d,", Number(event), static_cast<int>(count)), 0;
  };
  driver.GraphAddEventWaitNode = [](CUgraphNode* node, CUgraph, const CUgraphNode*, std::size_t, CUevent event) {
    *node = reinterpret_cast<CUgraphNode>(++nodes);
    return std::printf(" wait %d for event %d,", Number(*node), Number(event)), 0;
  };
  driver.GraphExecEventWaitNodeSetEvent = [](CUgraphExec, CUgraphNode node, CUevent event) {
    return std::printf(" %d waits for event %d,", Number(node), Number(event)), 0;
  };
  driver.StreamWaitEvent = [](CUstream, CUevent event, unsigned) {
    return std::printf(" stream waits for event %d,", Number(event)), 0;
  };
  return driver;
}

CudaDriver fake = FakeDriver();
CUcontext context = reinterpret_cast<CUcontext>(&fake);

struct Region {
  GraphCounters counters;
  GraphPlaces places;
  std::vector<std::unique_ptr<Executable>> lengths;

  explicit Region(int count) {
    for (int i = 0; i < count; ++i) {
      auto executable = std::make_unique<Executable>();
      executable->steps.assign(3, GpuLaunch{});
      executable->after.resize(3);
      executable->graph = std::make_shared<StepGraph>(&counters, &places);
      lengths.push_back(std::move(executable));
    }
  }

  // Whether it ran as a graph.
  bool Run(int length) {
    const Executable& executable = *lengths[length];
    executable.WorkspaceBytes();
    const auto record = [](CUstream, const Step&, std::size_t) { return std::string(); };
    executable.graph->CountRun();
    return executable.graph->Wanted(executable.steps) &&
           executable.graph->Launch(context, executable, Buffers{}, nullptr, {}, {}, record);
  }

  // Runs some of the lengths, each in its turn; prints which of them ran as graphs the last time.
  void Rounds(const char* title, int begin, int end, int rounds) {
    for (int i = 0; i < rounds - 1; ++i) {
      for (int length = begin; length < end; ++length) Run(length);
    }
    std::printf("%s:", title);
    for (int length = begin; length < end; ++length) {
      if (Run(length)) std::printf(" %d", length);
    }
    std::printf(" | %d live, %d made, %d given up, %d failed\n", live, made, static_cast<int>(counters.given_up),
                static_cast<int>(counters.failures));
  }
};

// Of the second output, which one step touches, and of the first, which two do; once, though it is launched twice.
void Early() {
  GraphCounters counters;
  GraphPlaces places;
  Executable executable;
  GpuLaunch first{}, second{}, third{};
  first.args = {{Space::kOutput, 0}};
  second.args = {{Space::kArena, 0}, {Space::kOutput, 0}};
  third.args = {{Space::kArena, 0}, {Space::kOutput, 1}};
  executable.steps = {first, second, third};
  executable.after = {{}, {0}, {1}};
  executable.graph = std::make_shared<StepGraph>(&counters, &places);
  char memory[3];
  Buffers buffers;
  buffers.outputs = {&memory[0], &memory[1]};
  buffers.arena = {&memory[2]};
  const auto record = [](CUstream, const Step&, std::size_t) { return std::string(); };
  std::printf("early outputs:");
  verbose = true;
  for (int i = 0; i < 5; ++i) {
    executable.WorkspaceBytes();
    executable.graph->CountRun();
    if (executable.graph->Wanted(executable.steps)) {
      executable.graph->Launch(context, executable, buffers, nullptr, {1, 0}, {}, record);
    }
  }
  verbose = false;
  std::printf(" ready:");
  for (const CUevent event : executable.graph->ready()) std::printf(" %d", Number(event));
  std::printf("\n");
}

LateInput Late(int input, std::size_t event) { return {input, reinterpret_cast<CUevent>(event)}; }

// A graph that two steps of wait for one input, one for another, in runs with these inputs late.
void Late(const char* title, const std::vector<std::vector<LateInput>>& runs) {
  GraphCounters counters;
  GraphPlaces places;
  Executable executable;
  GpuLaunch first{}, second{}, third{};
  first.args = {{Space::kArena, 0}, {Space::kInput, 1}};
  second.args = {{Space::kArena, 0}, {Space::kInput, 0}};
  third.args = {{Space::kArena, 0}, {Space::kInput, 1}};
  executable.steps = {first, second, third};
  executable.after = {{}, {}, {0}};
  executable.graph = std::make_shared<StepGraph>(&counters, &places);
  char memory[4];
  Buffers buffers;
  buffers.inputs = {&memory[0], &memory[1], &memory[3]};
  buffers.arena = {&memory[2]};
  const auto record = [](CUstream, const Step&, std::size_t) { return std::string(); };
  executable.WorkspaceBytes();
  for (int i = 0; i < 4; ++i) executable.graph->CountRun();
  executable.graph->Wanted(executable.steps);
  nodes = 0;
  verbose = true;
  std::printf("%s:", title);
  for (const auto& late : runs) executable.graph->Launch(context, executable, buffers, nullptr, {}, late, record);
  verbose = false;
  std::printf("\n");
}

void Run() {
  {
    Region region(50);
    region.Rounds("three runs", 0, 50, 3);
    region.Rounds("in turns", 0, 50, 100);
    region.Rounds("others, not for long", 20, 23, 14);
    region.Rounds("the first again", 0, 8, 1);
    region.Rounds("others from now on", 20, 23, 17);
    region.Rounds("all", 0, 50, 1);
    region.Rounds("one", 40, 41, 16);
    region.lengths.resize(4);
    region.Rounds("others are dropped", 0, 4, 1);
    can_make = false;
    Region fails(10);
    fails.Rounds("no graph can be made", 0, 10, 30);
    can_make = true;
    region.Rounds("after failures", 0, 4, 1);
  }
  std::printf("%d live\n", live);
  SetGraphs(10, true);
  Region first(9), second(9);
  first.Rounds("a region", 0, 9, 20);
  second.Rounds("what the process has left", 0, 9, 20);
  second.Rounds("its own are replaced", 5, 7, 17);
  Region third(1);
  third.Rounds("nothing is left", 0, 1, 20);
  first.lengths.clear();
  third.Rounds("places of executables that are dropped", 0, 1, 1);
  nodes = 0;
  Early();
  Late("late inputs", {{Late(0, 7), Late(1, 8), Late(2, 9)}, {Late(0, 7), Late(1, 8), Late(2, 9)}});
  Late("other events", {{Late(0, 7), Late(1, 8)}, {Late(0, 7), Late(1, 9)}});
  Late("not late at first", {{}, {Late(0, 7), Late(1, 8)}});
  Late("not late any more", {{Late(0, 7)}, {}});
}

}  // namespace

const CudaDriver& Cuda() { return fake; }

std::string CudaError(const char* call, CUresult code) { return code == 0 ? "" : call; }


}  // namespace tf_stitch

int main() { tf_stitch::Run(); }
