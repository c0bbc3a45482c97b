// The steps of an executable as a CUDA graph: one launch for all of them.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "buffers.h"

namespace tf_stitch {

struct GraphCounters {
  std::atomic<std::int64_t> graphs{0};       // made
  std::atomic<std::int64_t> launches{0};     // of graphs
  std::atomic<std::int64_t> updates{0};      // nodes that got new addresses
  std::atomic<std::int64_t> host_ns{0};      // spent updating and launching
  std::atomic<std::int64_t> failures{0};     // executables that run step by step because no graph could be made of them
};
GraphCounters& GraphStats();

// Why the last failure came about; "" if there was none.
std::string LastGraphError();

// How many graphs a process keeps at most (TF_STITCH_CUDA_GRAPHS); 0: none.
void SetGraphLimit(int graphs);

// Runs steps [first, last) of the executable on a stream.
using RunSteps = std::function<std::string(CUstream stream, std::size_t first, std::size_t last)>;

// One executable's graph. Thread-safe: launches of one graph follow each other.
class StepGraph {
 public:
  ~StepGraph();

  // Counts a run and says whether to launch the graph for it: after some runs with every product settled. A graph that
  // cannot be made is not tried again.
  bool Wanted(const std::vector<Step>& steps);

  // Launches the steps on `stream`; makes the graph on first use, and gives it the addresses of this run. False if it
  // was not launched: then nothing was enqueued, and the caller runs the steps one by one.
  bool Launch(CUcontext context, const std::vector<Step>& steps, const Buffers& buffers, CUstream stream,
              const RunSteps& run);

 private:
  bool Room(const std::vector<Step>& steps);
  std::string Make(const std::vector<Step>& steps, const Buffers& buffers, const RunSteps& run);
  std::string Update(const std::vector<Step>& steps, const Buffers& buffers, const RunSteps& run);
  std::string Capture(std::size_t step, const RunSteps& run, CUgraph* graph);
  void Release();

  std::mutex mutex_;
  std::atomic<int> runs_{0};
  std::atomic<bool> failed_{false};
  CUcontext context_ = nullptr;
  CUstream capture_ = nullptr;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
  std::vector<CUgraphNode> nodes_;             // one a step
  std::vector<std::vector<void*>> arguments_;  // of each step, as the graph has them
  Buffers buffers_;                            // as the graph has them
};

}  // namespace tf_stitch
