// Plans of cuDNN's operation graphs: which there are, and how one runs. Who makes one holds the handle's mutex.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/cuda_driver.h"
#include "cuda/cudnn_descriptor.h"
#include "cuda/cudnn_handles.h"

namespace tf_stitch {

struct DnnPlan {
  Descriptor made;
  std::size_t workspace;  // bytes of scratch memory
};

// Configurations of engines for a graph, `most` at most, those first that a heuristic takes for the fastest.
std::vector<Descriptor> DnnConfigurations(const DnnLibrary& dnn, const Descriptor& graph, int mode, std::int64_t most);

// The plan of a configuration is added; not if it has no kernel for this device.
void AddDnnPlan(const DnnLibrary& dnn, DnnHandle handle, const Descriptor& configuration, std::vector<DnnPlan>* plans);

// Enqueues a plan. `numbers` are those of the tensors that `pointers` are of.
std::string RunDnnPlan(const DnnLibrary& dnn, SharedHandle* handle, const DnnPlan& plan, CUstream stream,
                       const std::vector<std::int64_t>& numbers, void* const* pointers, void* workspace);

}  // namespace tf_stitch
