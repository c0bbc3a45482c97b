#include "cuda/graph_nodes.h"

#include <algorithm>

namespace tf_stitch {
namespace {

// A kernel node's parameters; `addresses` has to outlive them.
KernelNodeParams Params(const GpuLaunch& launch, std::vector<void*>& arguments, std::vector<void*>* addresses) {
  for (void*& argument : arguments) addresses->push_back(&argument);
  for (const std::int64_t& size : launch.sizes) addresses->push_back(const_cast<std::int64_t*>(&size));
  KernelNodeParams params{};
  params.function = launch.function;
  params.grid[0] = launch.grid;
  params.block[0] = launch.block;
  for (int axis = 1; axis < 3; ++axis) params.grid[axis] = params.block[axis] = 1;
  params.shared_bytes = launch.dynamic_shared_bytes;
  params.parameters = addresses->data();
  return params;
}

struct Recorded {
  std::vector<CUgraphNode> nodes;
  std::vector<CUgraphNode> from, to;  // of each edge
  std::vector<GraphEdge> edges;
};

std::string Read(CUgraph graph, Recorded* recorded) {
  std::size_t nodes = 0, edges = 0;
  std::string error = CudaError("cuGraphGetNodes", Cuda().GraphGetNodes(graph, nullptr, &nodes));
  if (error.empty()) {
    error = CudaError("cuGraphGetEdges", Cuda().GraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  }
  if (!error.empty()) return error;
  *recorded = {std::vector<CUgraphNode>(nodes), std::vector<CUgraphNode>(edges), std::vector<CUgraphNode>(edges),
               std::vector<GraphEdge>(edges)};
  if (nodes != 0) error = CudaError("cuGraphGetNodes", Cuda().GraphGetNodes(graph, recorded->nodes.data(), &nodes));
  if (!error.empty() || edges == 0) return error;
  return CudaError("cuGraphGetEdges", Cuda().GraphGetEdges(graph, recorded->from.data(), recorded->to.data(),
                                                           recorded->edges.data(), &edges));
}

// Nodes of a recorded graph, each after the one before it.
struct Chain {
  std::vector<CUgraphNode> nodes;
  std::vector<int> types;
  std::vector<GraphEdge> edges;  // into each, the first one's is none
};

// Empty if the graph is no chain, or has other nodes than kernels and memsets.
std::string FindChain(CUgraph graph, Chain* chain) {
  if (!Cuda().has_edges) return "";
  Recorded recorded;
  std::string error = Read(graph, &recorded);
  if (!error.empty() || recorded.edges.size() + 1 != recorded.nodes.size()) return error;
  const auto& [nodes, from, to, edges] = recorded;
  const auto first = std::find_if(nodes.begin(), nodes.end(), [&to = to](CUgraphNode node) {
    return std::find(to.begin(), to.end(), node) == to.end();
  });
  Chain found;
  CUgraphNode node = first == nodes.end() ? nullptr : *first;
  GraphEdge edge{};
  while (node != nullptr) {
    int type = 0;
    error = CudaError("cuGraphNodeGetType", Cuda().GraphNodeGetType(node, &type));
    if (!error.empty() || (type != kNodeIsKernel && type != kNodeIsMemset)) return error;
    found.nodes.push_back(node);
    found.types.push_back(type);
    found.edges.push_back(edge);
    const std::size_t next = std::find(from.begin(), from.end(), node) - from.begin();
    node = next < edges.size() ? to[next] : nullptr;
    if (node != nullptr) edge = edges[next];
  }
  if (found.nodes.size() == nodes.size()) *chain = std::move(found);
  return "";
}

std::string Read(CUgraphNode recorded, KernelNodeParams* params) {
  return CudaError("cuGraphKernelNodeGetParams", Cuda().GraphKernelNodeGetParams(recorded, params));
}

std::string Read(CUgraphNode recorded, MemsetNodeParams* params, CUcontext* context) {
  Cuda().CtxGetCurrent(context);
  return CudaError("cuGraphMemsetNodeGetParams", Cuda().GraphMemsetNodeGetParams(recorded, params));
}

std::string CopyKernel(CUgraph graph, CUgraphNode recorded, CUgraphNode* node) {
  KernelNodeParams params{};
  std::string error = Read(recorded, &params);
  if (error.empty()) {
    error = CudaError("cuGraphAddKernelNode", Cuda().GraphAddKernelNode(node, graph, nullptr, 0, &params));
  }
  if (!error.empty()) return error;
  return CudaError("cuGraphKernelNodeCopyAttributes", Cuda().GraphKernelNodeCopyAttributes(*node, recorded));
}

std::string CopyMemset(CUgraph graph, CUgraphNode recorded, CUgraphNode* node) {
  MemsetNodeParams params{};
  CUcontext context = nullptr;
  const std::string error = Read(recorded, &params, &context);
  if (!error.empty()) return error;
  return CudaError("cuGraphAddMemsetNode",
                   Cuda().GraphAddMemsetNode(node, graph, nullptr, 0, &params, context));
}

std::string UpdateNode(CUgraphExec exec, CUgraphNode node, CUgraphNode recorded, int type) {
  if (type == kNodeIsKernel) {
    KernelNodeParams params{};
    const std::string error = Read(recorded, &params);
    if (!error.empty()) return error;
    return CudaError("cuGraphExecKernelNodeSetParams", Cuda().GraphExecKernelNodeSetParams(exec, node, &params));
  }
  MemsetNodeParams params{};
  CUcontext context = nullptr;
  const std::string error = Read(recorded, &params, &context);
  if (!error.empty()) return error;
  return CudaError("cuGraphExecMemsetNodeSetParams",
                   Cuda().GraphExecMemsetNodeSetParams(exec, node, &params, context));
}

std::string AddFullEdge(CUgraph graph, CUgraphNode before, CUgraphNode after) {
  return CudaError("cuGraphAddDependencies", Cuda().GraphAddDependencies(graph, &before, &after, 1));
}

}  // namespace

std::string AddLaunch(CUgraph graph, const GpuLaunch& launch, std::vector<void*>& arguments, StepNodes* added) {
  std::vector<void*> addresses;
  const KernelNodeParams params = Params(launch, arguments, &addresses);
  CUgraphNode node = nullptr;
  const std::string error =
      CudaError("cuGraphAddKernelNode", Cuda().GraphAddKernelNode(&node, graph, nullptr, 0, &params));
  // A cooperative kernel is started when nothing that it waits for holds the room that its blocks need all at once.
  *added = {{node}, launch.waits && !launch.cooperative, true};
  if (!error.empty() || !launch.cooperative) return error;
  const std::int64_t value[8] = {1};  // CUlaunchAttributeValue
  return CudaError("cuGraphKernelNodeSetAttribute",
                   Cuda().GraphKernelNodeSetAttribute(node, kNodeCooperative, value));
}

std::string AddRecorded(CUgraph graph, CUgraph recorded, StepNodes* added) {
  Chain chain;
  std::string error = FindChain(recorded, &chain);
  if (!error.empty()) return error;
  if (chain.nodes.empty()) {
    added->nodes.resize(1);
    return CudaError("cuGraphAddChildGraphNode",
                     Cuda().GraphAddChildGraphNode(added->nodes.data(), graph, nullptr, 0, recorded));
  }
  for (std::size_t i = 0; error.empty() && i < chain.nodes.size(); ++i) {
    CUgraphNode node = nullptr;
    const auto copy = chain.types[i] == kNodeIsKernel ? CopyKernel : CopyMemset;
    error = copy(graph, chain.nodes[i], &node);
    if (error.empty() && i != 0) {
      error = CudaError("cuGraphAddDependencies",
                        Cuda().GraphAddEdges(graph, &added->nodes.back(), &node, &chain.edges[i], 1));
    }
    added->nodes.push_back(node);
  }
  added->ends_in_kernel = chain.types.back() == kNodeIsKernel;
  return error;
}

std::string AddEdge(CUgraph graph, const StepNodes& before, const StepNodes& after, bool programmatic,
                    std::int64_t* count) {
  const CUgraphNode from = before.nodes.back(), to = after.nodes.front();
  if (!programmatic || !before.ends_in_kernel || !after.waits || !Cuda().has_edges) return AddFullEdge(graph, from, to);
  ++*count;
  return CudaError("cuGraphAddDependencies", Cuda().GraphAddEdges(graph, &from, &to, &kProgrammaticEdge, 1));
}

std::string AddEvent(CUgraph graph, CUevent event, const std::vector<const StepNodes*>& after) {
  std::vector<CUgraphNode> nodes;
  for (const StepNodes* step : after) nodes.push_back(step->nodes.back());
  CUgraphNode node = nullptr;
  return CudaError("cuGraphAddEventRecordNode",
                   Cuda().GraphAddEventRecordNode(&node, graph, nodes.data(), nodes.size(), event));
}

std::string AddWait(CUgraph graph, CUevent event, CUgraphNode* node) {
  return CudaError("cuGraphAddEventWaitNode", Cuda().GraphAddEventWaitNode(node, graph, nullptr, 0, event));
}

std::string LetWait(CUgraph graph, CUgraphNode wait, const StepNodes& step) {
  return AddFullEdge(graph, wait, step.nodes.front());
}

std::string UpdateLaunch(CUgraphExec exec, const StepNodes& step, const GpuLaunch& launch,
                         std::vector<void*>& arguments) {
  std::vector<void*> addresses;
  const KernelNodeParams params = Params(launch, arguments, &addresses);
  return CudaError("cuGraphExecKernelNodeSetParams",
                   Cuda().GraphExecKernelNodeSetParams(exec, step.nodes.front(), &params));
}

std::string UpdateRecorded(CUgraphExec exec, const StepNodes& step, CUgraph recorded) {
  Chain chain;
  std::string error = FindChain(recorded, &chain);
  if (!error.empty()) return error;
  if (chain.nodes.empty()) {
    return CudaError("cuGraphExecChildGraphNodeSetParams",
                     Cuda().GraphExecChildGraphNodeSetParams(exec, step.nodes.front(), recorded));
  }
  if (chain.nodes.size() != step.nodes.size()) return "a library recorded other kernels for other addresses";
  for (std::size_t i = 0; error.empty() && i < chain.nodes.size(); ++i) {
    error = UpdateNode(exec, step.nodes[i], chain.nodes[i], chain.types[i]);
  }
  return error;
}

}  // namespace tf_stitch
