#include "cuda/cudnn_plans.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace tf_stitch {

std::vector<Descriptor> DnnConfigurations(const DnnLibrary& dnn, const Descriptor& graph, int mode,
                                          std::int64_t most) {
  Descriptor heuristics(dnn, kDnnHeuristics);
  heuristics.Set(kDnnHeuristicsGraph, graph).Set(kDnnHeuristicsMode, kDnnIsHeuristicMode, mode).Finalize();
  std::vector<Descriptor> found;
  std::vector<DnnDescriptor> room;
  for (std::int64_t i = 0; i < most; ++i) {
    found.emplace_back(dnn, kDnnEngineConfig);
    room.push_back(found.back().get());
  }
  const std::int64_t count = heuristics.Get(kDnnHeuristicsResults, kDnnIsDescriptor, room.data(), most);
  while (static_cast<std::int64_t>(found.size()) > std::max<std::int64_t>(count, 0)) found.pop_back();
  return found;
}

void AddDnnPlan(const DnnLibrary& dnn, DnnHandle handle, const Descriptor& configuration,
                std::vector<DnnPlan>* plans) {
  Descriptor made(dnn, kDnnPlan);
  made.Set(kDnnPlanHandle, kDnnIsHandle, handle).Set(kDnnPlanConfig, configuration).Finalize();
  std::int64_t workspace = 0;
  if (made.Get(kDnnPlanWorkspace, kDnnIsInt64, &workspace, 1) != 1) return;
  plans->push_back({std::move(made), static_cast<std::size_t>(workspace)});
}

std::string RunDnnPlan(const DnnLibrary& dnn, SharedHandle* handle, const DnnPlan& plan, CUstream stream,
                       const std::vector<std::int64_t>& numbers, void* const* pointers, void* workspace) {
  Descriptor pack(dnn, kDnnVariantPack);
  pack.Set(kDnnVariantIds, numbers);
  pack.Set(kDnnVariantPointers, kDnnIsPointer, pointers, static_cast<std::int64_t>(numbers.size()));
  pack.Set(kDnnVariantWorkspace, kDnnIsPointer, workspace).Finalize();
  if (!pack.error().empty()) return pack.error();
  std::lock_guard<std::mutex> lock(handle->mutex);
  const std::string error = DnnFailed("cudnnSetStream", dnn.SetStream(handle->handle, stream));
  if (!error.empty()) return error;
  return DnnFailed("cudnnBackendExecute", dnn.Execute(handle->handle, plan.made.get(), pack.get()));
}

}  // namespace tf_stitch
