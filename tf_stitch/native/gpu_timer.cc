#include "gpu_timer.h"

#include <algorithm>

namespace tf_stitch {
namespace {

constexpr int kRounds = 3;

// The work as a graph, recorded on a stream of its own; null if it cannot be recorded.
CUgraphExec Record(int repeats, const EnqueueOn& work) {
  CUstream stream = nullptr;
  if (Cuda().StreamCreate(&stream, kStreamNonBlocking) != 0) return nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  if (Cuda().StreamBeginCapture(stream, kCaptureRelaxed) == 0) {
    bool good = true;
    for (int i = 0; good && i < repeats; ++i) good = work(stream);
    good = Cuda().StreamEndCapture(stream, &graph) == 0 && good;
    if (!good || Cuda().GraphInstantiate(&exec, graph, 0) != 0) exec = nullptr;
  }
  if (graph != nullptr) Cuda().GraphDestroy(graph);
  Cuda().StreamDestroy(stream);
  return exec;
}

}  // namespace

GpuTimer::GpuTimer() {
  if (Cuda().EventCreate(&start_, 0) != 0) start_ = nullptr;
  if (Cuda().EventCreate(&stop_, 0) != 0) stop_ = nullptr;
}

GpuTimer::~GpuTimer() {
  if (start_ != nullptr) Cuda().EventDestroy(start_);
  if (stop_ != nullptr) Cuda().EventDestroy(stop_);
}

float GpuTimer::Time(CUstream stream, const EnqueueOn& work) const {
  float milliseconds = kNotMeasured;
  const bool good = start_ != nullptr && stop_ != nullptr && Cuda().EventRecord(start_, stream) == 0 && work(stream) &&
                    Cuda().EventRecord(stop_, stream) == 0 && Cuda().EventSynchronize(stop_) == 0 &&
                    Cuda().EventElapsedTime(&milliseconds, start_, stop_) == 0;
  return good ? milliseconds : kNotMeasured;
}

float GpuTimer::TimeInGraph(CUstream stream, int repeats, const EnqueueOn& work) const {
  CUgraphExec exec = Record(repeats, work);
  if (exec == nullptr) return kNotMeasured;
  const auto launch = [&](CUstream on) { return Cuda().GraphLaunch(exec, on) == 0; };
  float best = kNotMeasured;
  Time(stream, launch);  // the first launch uploads the graph
  for (int round = 0; round < kRounds; ++round) best = std::min(best, Time(stream, launch));
  Cuda().GraphExecDestroy(exec);
  return best == kNotMeasured ? best : best / static_cast<float>(repeats);
}

}  // namespace tf_stitch
