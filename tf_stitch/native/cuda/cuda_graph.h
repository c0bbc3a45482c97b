// The steps of an executable as a CUDA graph: one launch for all of them, independent ones side by side.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "op/arrivals.h"
#include "op/buffers.h"
#include "cuda/graph_nodes.h"
#include "cuda/graph_places.h"

namespace tf_stitch {

// Of the graphs of one region on one device. Thread-safe.
struct GraphCounters {
  std::atomic<std::int64_t> graphs{0};        // made
  std::atomic<std::int64_t> instances{0};     // made of them: one for each set of addresses, up to a few
  std::atomic<std::int64_t> making_ns{0};     // spent on both
  std::atomic<std::int64_t> launches{0};      // of instances
  std::atomic<std::int64_t> host_ns{0};       // spent finding, updating and launching them
  std::atomic<std::int64_t> known{0};         // launches of an instance that had all addresses already
  std::atomic<std::int64_t> known_ns{0};      // spent on these
  std::atomic<std::int64_t> updates{0};       // steps that got new addresses
  std::atomic<std::int64_t> programmatic{0};  // edges of the graphs made
  std::atomic<std::int64_t> refused{0};       // graphs made with full edges because they could not be with those
  std::atomic<std::int64_t> given_up{0};      // graphs destroyed for those of other executables
  std::atomic<std::int64_t> failures{0};      // executables that run step by step: no graph could be made of them

  void Refused(const std::string& why) { Count(&refused, why); }
  void Failed(const std::string& why) { Count(&failures, why); }
  std::string Error() {
    std::lock_guard<std::mutex> lock(mutex);
    return error;
  }

 private:
  void Count(std::atomic<std::int64_t>* counter, const std::string& why) {
    counter->fetch_add(1, std::memory_order_relaxed);
    std::lock_guard<std::mutex> lock(mutex);
    error = why;
  }

  std::mutex mutex;
  std::string error;  // of the last failure or refusal
};

// How many executables of a process have graphs at most (TF_STITCH_CUDA_GRAPHS), 0: none (of a region there are
// GraphPlaces::kMost at most); whether kernels may be started beside those that they depend on (TF_STITCH_PROGRAMMATIC).
void SetGraphs(int limit, bool programmatic);

// Runs one step on a stream, a matmul with its scratch memory at an offset of the workspace.
using RunStepOn = std::function<std::string(CUstream stream, const Step& step, std::size_t workspace)>;

// One executable's graph, instantiated for a few sets of addresses: allocators tend to alternate between some.
// Thread-safe: launches of one executable follow each other.
class StepGraph : public GraphClaim {
 public:
  // `counters` and `places` outlive it.
  StepGraph(GraphCounters* counters, GraphPlaces* places) : counters_(*counters), places_(*places) {}
  ~StepGraph() override;

  // Counts a run, and says whether matmuls may try the library's proposals in it: from the last one before the graph
  // on, as there are sizes that come once or twice.
  bool CountRun();

  // Whether to launch the graph for the run that was counted last: after some runs, with every matmul settled, where
  // the region has a place for it. A graph that cannot be made is not tried again.
  bool Wanted(const std::vector<Step>& steps);

  // Launches the steps on `stream`; makes the graph on first use, and gives it the addresses of this run. False if it
  // was not launched, for one because the run has too little scratch memory: then nothing was enqueued, and the caller
  // runs the steps one by one. `early`: outputs that somebody may want before the graph has ended, the same ones each time.
  // `late`: inputs that are not there when the stream has come so far; steps that read none of them do not wait.
  bool Launch(CUcontext context, const Executable& executable, const Buffers& buffers, CUstream stream,
              const std::vector<int>& early, const std::vector<LateInput>& late, const RunStepOn& run);

  // Of each of `early`, what a launch records when no step touches that output any more. To be waited for behind a
  // launch. They stay for the life of the process: who waits may come when the graph is gone.
  const std::vector<CUevent>& ready() const { return ready_; }

  void GiveUp() override;

  // Scratch memory that a run needs: until every matmul is settled what the greediest may take, then what those take
  // that can run side by side.
  std::size_t WorkspaceBytes(const Executable& executable);

 private:
  using Arguments = std::vector<std::vector<void*>>;  // of each step

  struct Instance {
    CUgraphExec exec = nullptr;
    Buffers buffers;
    Arguments arguments;
    std::vector<LateInput> late;  // what it waits for
    std::int64_t used = 0;        // the launch that used it last
  };

  bool LaunchHere(CUcontext context, const Executable& executable, const Buffers& buffers, CUstream stream,
                  const std::vector<int>& early, const std::vector<LateInput>& late,
                  const RunStepOn& run);  // mutex_ is held
  void PlaceWorkspaces(const Executable& executable);
  std::string Make(const Executable& executable, const Buffers& buffers, const std::vector<int>& early,
                   const std::vector<LateInput>& late, const RunStepOn& run);
  // The graph of `arguments_`, and an instance of it; counts its programmatic edges.
  std::string Build(const Executable& executable, const std::vector<int>& early, const std::vector<LateInput>& late,
                    const RunStepOn& run, bool programmatic, std::int64_t* edges);
  // Records `ready_` of those outputs that this step touches last, behind all that do.
  std::string AddEvents(const Executable& executable, std::size_t step, const std::vector<int>& early);
  // Lets a step wait for the late inputs that it touches.
  std::string AddWaits(const Step& step, const StepNodes& nodes);
  // Lets the front instance wait for these events, or the stream, where the graph was made for other inputs.
  std::string AwaitLate(CUstream stream, const std::vector<LateInput>& late);
  std::string AddNodes(const Step& step, std::vector<void*>& arguments, std::size_t workspace, const RunStepOn& run,
                       StepNodes* added);
  // Brings the instance with these addresses to the front, if there is one.
  bool FindKnown(const Buffers& buffers);
  std::string Instantiate();  // one more, at the front
  // The instance to give new addresses: one that nobody has used for long, or the one with the fewest others.
  std::list<Instance>::iterator Replaceable(const Arguments& wanted);
  std::string Update(Instance* instance, const Executable& executable, const Buffers& buffers, Arguments wanted,
                     const RunStepOn& run);
  std::string Capture(const Step& step, std::size_t workspace, const RunStepOn& run, CUgraph* graph);
  void Release();
  void DestroyGraph();

  std::mutex mutex_;
  std::atomic<int> runs_{0};
  std::atomic<bool> failed_{false};
  GraphCounters& counters_;
  GraphPlaces& places_;
  std::atomic<bool> placed_{false};              // whether workspace_bytes_, after_ and workspace_ are known
  std::size_t workspace_bytes_ = 0;
  CUcontext context_ = nullptr;
  CUstream capture_ = nullptr;
  CUgraph graph_ = nullptr;
  std::vector<std::vector<int>> after_;          // edges, those between matmuls that share scratch memory included
  std::vector<std::size_t> workspace_;           // offset of each step's scratch memory
  std::vector<StepNodes> nodes_;                 // of each step
  std::vector<CUevent> ready_;
  std::vector<LateInput> late_;                  // as the graph was made
  std::vector<CUgraphNode> waits_;               // of each, null: no step reads it
  Arguments arguments_;                          // as the graph was made
  std::list<Instance> instances_;                // last used first
  std::int64_t launches_ = 0;
};

}  // namespace tf_stitch
