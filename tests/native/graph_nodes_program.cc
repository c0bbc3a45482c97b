// Prints what graph_nodes.cc makes of recorded graphs, with a driver that only keeps books.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <tuple>

#include "cuda/graph_nodes.h"

namespace tf_stitch {

struct CUgraphNode_st {
  std::string name;
  int type;  // as CUgraphNodeType
  unsigned grid = 0;
  bool attributes = false;
};
struct CUgraph_st {
  std::vector<CUgraphNode> nodes;
  std::vector<std::tuple<CUgraphNode, CUgraphNode, bool>> edges;  // whether programmatic
};

namespace {

constexpr int kMemcpy = 1, kChild = 4, kEvent = 7;

std::vector<std::unique_ptr<CUgraphNode_st>> all_nodes;
std::vector<std::string> updated;

CUgraphNode Add(CUgraph graph, const std::string& name, int type, unsigned grid = 0) {
  all_nodes.push_back(std::make_unique<CUgraphNode_st>(CUgraphNode_st{name, type, grid}));
  graph->nodes.push_back(all_nodes.back().get());
  return graph->nodes.back();
}

CudaDriver FakeDriver() {
  CudaDriver driver{};
  driver.loaded = driver.has_edges = true;
  driver.CtxGetCurrent = [](CUcontext*) { return 0; };
  driver.GraphGetNodes = [](CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
    if (nodes != nullptr) std::copy(graph->nodes.begin(), graph->nodes.end(), nodes);
    *count = graph->nodes.size();
    return 0;
  };
  driver.GraphNodeGetType = [](CUgraphNode node, int* type) { return *type = node->type, 0; };
  driver.GraphGetEdges = [](CUgraph graph, CUgraphNode* from, CUgraphNode* to, GraphEdge* data, std::size_t* count) {
    for (std::size_t i = 0; from != nullptr && i < graph->edges.size(); ++i) {
      from[i] = std::get<0>(graph->edges[i]);
      to[i] = std::get<1>(graph->edges[i]);
      data[i] = std::get<2>(graph->edges[i]) ? kProgrammaticEdge : GraphEdge{};
    }
    *count = graph->edges.size();
    return 0;
  };
  driver.GraphAddEdges = [](CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const GraphEdge* data,
                            std::size_t) {
    graph->edges.emplace_back(*from, *to, data->type == 1 && data->from_port == 1);
    return 0;
  };
  driver.GraphAddDependencies = [](CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, std::size_t) {
    graph->edges.emplace_back(*from, *to, false);
    return 0;
  };
  driver.GraphKernelNodeGetParams = [](CUgraphNode node, KernelNodeParams* params) {
    params->grid[0] = node->grid;
    return 0;
  };
  driver.GraphAddKernelNode = [](CUgraphNode* node, CUgraph graph, const CUgraphNode*, std::size_t,
                                 const KernelNodeParams* params) {
    *node = Add(graph, "kernel", kNodeIsKernel, params->grid[0]);
    return 0;
  };
  driver.GraphKernelNodeCopyAttributes = [](CUgraphNode to, CUgraphNode) { return to->attributes = true, 0; };
  driver.GraphKernelNodeSetAttribute = [](CUgraphNode node, int, const void*) { return node->attributes = true, 0; };
  driver.GraphMemsetNodeGetParams = [](CUgraphNode node, MemsetNodeParams* params) {
    params->width = node->grid;
    return 0;
  };
  driver.GraphAddMemsetNode = [](CUgraphNode* node, CUgraph graph, const CUgraphNode*, std::size_t,
                                 const MemsetNodeParams* params, CUcontext) {
    *node = Add(graph, "memset", kNodeIsMemset, params->width);
    return 0;
  };
  driver.GraphAddChildGraphNode = [](CUgraphNode* node, CUgraph graph, const CUgraphNode*, std::size_t, CUgraph) {
    *node = Add(graph, "graph", kChild);
    return 0;
  };
  driver.GraphAddEventRecordNode = [](CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                                      CUevent event) {
    *node = Add(graph, "event", kEvent, static_cast<unsigned>(reinterpret_cast<std::size_t>(event)));
    for (std::size_t i = 0; i < count; ++i) graph->edges.emplace_back(after[i], *node, false);
    return 0;
  };
  driver.GraphExecKernelNodeSetParams = [](CUgraphExec, CUgraphNode node, const KernelNodeParams* params) {
    updated.push_back(node->name + " " + std::to_string(params->grid[0]));
    return 0;
  };
  driver.GraphExecMemsetNodeSetParams = [](CUgraphExec, CUgraphNode node, const MemsetNodeParams* params, CUcontext) {
    updated.push_back(node->name + " " + std::to_string(params->width));
    return 0;
  };
  driver.GraphExecChildGraphNodeSetParams = [](CUgraphExec, CUgraphNode node, CUgraph) {
    updated.push_back(node->name);
    return 0;
  };
  return driver;
}

CudaDriver fake = FakeDriver();

struct Recorded : CUgraph_st {
  // Nodes by type; `links` between them, by index. They are kept from last to first, as a driver may.
  Recorded(const std::vector<int>& types, const std::vector<std::tuple<int, int, bool>>& links, unsigned grid = 1) {
    for (int type : types) Add(this, "", type, grid++);
    for (const auto& [from, to, programmatic] : links) edges.emplace_back(nodes[from], nodes[to], programmatic);
    std::reverse(nodes.begin(), nodes.end());
    std::reverse(edges.begin(), edges.end());
  }
};

GpuLaunch Launch(bool waits, bool cooperative = false) {
  GpuLaunch launch{};
  launch.grid = 7;
  launch.waits = waits;
  launch.cooperative = cooperative;
  return launch;
}

void Print(const char* title, const CUgraph_st& graph, const std::string& error, std::int64_t programmatic = 0) {
  std::printf("%s:", title);
  for (CUgraphNode node : graph.nodes) {
    std::printf(" %s%s %u", node->name.c_str(), node->attributes ? "+" : "", node->grid);
  }
  const auto at = [&](CUgraphNode node) {
    return static_cast<int>(std::find(graph.nodes.begin(), graph.nodes.end(), node) - graph.nodes.begin());
  };
  for (const auto& [from, to, early] : graph.edges) std::printf(" %d%s%d", at(from), early ? "~" : "-", at(to));
  std::printf(" | %d programmatic%s%s\n", static_cast<int>(programmatic), error.empty() ? "" : " ", error.c_str());
}

// A recorded graph between two kernels.
void Between(const char* title, Recorded recorded, bool waits = true, bool programmatic = true,
             bool cooperative = false) {
  CUgraph_st graph;
  StepNodes before, middle, after;
  std::vector<void*> none;
  std::int64_t count = 0;
  std::string error = AddLaunch(&graph, Launch(waits), none, &before);
  if (error.empty()) error = AddRecorded(&graph, &recorded, &middle);
  if (error.empty()) error = AddLaunch(&graph, Launch(waits, cooperative), none, &after);
  if (error.empty()) error = AddEdge(&graph, before, middle, programmatic, &count);
  if (error.empty()) error = AddEdge(&graph, middle, after, programmatic, &count);
  if (error.empty()) error = AddEdge(&graph, before, after, programmatic, &count);
  Print(title, graph, error, count);
}

void Update(const char* title, Recorded first, Recorded second) {
  CUgraph_st graph;
  StepNodes step;
  updated.clear();
  std::string error = AddRecorded(&graph, &first, &step);
  if (error.empty()) error = UpdateRecorded(nullptr, step, &second);
  std::printf("%s:", title);
  for (const std::string& one : updated) std::printf(" %s", one.c_str());
  std::printf(" | %s\n", error.c_str());
}

// Behind the ends of a launch and of what a library recorded.
void Event(const char* title, Recorded recorded) {
  CUgraph_st graph;
  StepNodes first, second;
  std::vector<void*> none;
  std::string error = AddLaunch(&graph, Launch(true), none, &first);
  if (error.empty()) error = AddRecorded(&graph, &recorded, &second);
  if (error.empty()) error = AddEvent(&graph, reinterpret_cast<CUevent>(9), {&first, &second});
  Print(title, graph, error);
}

void Run() {
  const int k = kNodeIsKernel, m = kNodeIsMemset;
  Between("one kernel", {{k}, {}});
  Between("three nodes", {{m, k, k}, {{0, 1, false}, {1, 2, true}}});
  Between("a memset", {{m}, {}});
  Between("side by side", {{k, k}, {}});
  Between("a fork", {{k, k, k}, {{0, 1, false}, {0, 2, false}}});
  Between("a copy", {{k, kMemcpy}, {{0, 1, false}}});
  Between("nothing", {{}, {}});
  Between("a cooperative kernel", {{k}, {}}, true, true, true);
  Between("kernels that do not wait", {{k}, {}}, false);
  Between("not wanted", {{k}, {}}, true, false);
  Update("new addresses", {{m, k}, {{0, 1, false}}}, {{m, k}, {{0, 1, false}}, 5});
  Update("other nodes", {{k}, {}}, {{m, k}, {{0, 1, false}}});
  Update("new addresses of a graph", {{k, k}, {}}, {{k, k}, {}});
  Event("an event", {{k, m}, {{0, 1, false}}});
  fake.has_edges = false;
  Between("an old driver", {{k}, {}});
}

}  // namespace

const CudaDriver& Cuda() { return fake; }

std::string CudaError(const char* call, CUresult code) { return code == 0 ? "" : call; }

}  // namespace tf_stitch

int main() { tf_stitch::Run(); }
