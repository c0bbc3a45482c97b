#include "cuda/call_trial.h"

#include <map>
#include <mutex>
#include <variant>

#include "cuda/cuda_driver.h"
#include "cuda/cuda_graph.h"
#include "op/library_call.h"

namespace tf_stitch {
namespace {

// The device's primary context, which is TensorFlow's; held for good, as TensorFlow does.
std::string FindContext(int device, CUcontext* context) {
  static auto* mutex = new std::mutex;
  static auto* known = new std::map<int, CUcontext>;
  if (!Cuda().loaded) return "no CUDA driver";
  const std::lock_guard<std::mutex> lock(*mutex);
  const auto found = known->find(device);
  if (found == known->end()) {
    const std::string error = CudaError("cuDevicePrimaryCtxRetain", Cuda().DevicePrimaryCtxRetain(context, device));
    if (!error.empty()) return error;
    known->emplace(device, *context);
  } else {
    *context = found->second;
  }
  return "";
}

}  // namespace

std::string TryCalls(int device, const std::vector<std::int64_t>& words) {
  Executable executable;
  Extents nothing;
  nothing.on_gpu = true;
  std::string error = Decode(words, nothing, &executable);
  CUcontext context = nullptr;
  if (error.empty()) error = FindContext(device, &context);
  if (!error.empty()) return error;
  const ScopedContext current(context);
  const CallSite site{0, 0, CallWorkspaceBytes(executable.bytes), AmpleWorkspaceBytes(executable.bytes)};
  for (Step& step : executable.steps) {
    auto* call = std::get_if<LibraryStep>(&step);
    if (call != nullptr && error.empty()) error = call->call->Prepare(context, site, &call->on_device);
  }
  return error;
}

std::string LoadAhead(int device, const std::vector<std::int64_t>& words, const Extents& extents) {
  GraphCounters counters;
  GraphPlaces places;
  Executable executable;
  CUcontext context = nullptr;
  std::string error = Decode(words, extents, &executable);
  if (error.empty()) error = FindContext(device, &context);
  if (!error.empty()) return error;
  const ScopedContext current(context);
  return PrepareGpu(context, /*aligned=*/true, &counters, &places, &executable);
}

}  // namespace tf_stitch
