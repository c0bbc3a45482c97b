// What the steps of an executable become in a CUDA graph: nodes, and edges between them.
//
// An edge from a kernel to one that waits by itself is programmatic: the latter is started while the former still runs,
// which hides the time that a start takes. Nothing else changes. A kernel that waits does so in all its threads, before
// they touch what a step of the executable writes, until those that it depends on have ended and what they wrote is visible; so it ends after them
// and, by induction, after all of its ancestors. What depends on it, by either kind of edge, comes after its end: it
// may read what any ancestor wrote, and overwrite what any ancestor read. Edges into everything else stay full.
#pragma once
#include <string>
#include <vector>

#include "op/executable.h"

namespace tf_stitch {

// The nodes of one step; they follow each other.
struct StepNodes {
  std::vector<CUgraphNode> nodes;
  bool waits = false;           // the first one, by itself, for kernels that it depends on
  bool ends_in_kernel = false;  // what depends on the step can be started before its end
};

// Adds the kernel of a launch; `arguments` are its operands' addresses.
std::string AddLaunch(CUgraph graph, const GpuLaunch& launch, std::vector<void*>& arguments, StepNodes* added);

// Adds what a library recorded: its nodes where it is a chain of kernels and memsets, else one node that holds it all.
std::string AddRecorded(CUgraph graph, CUgraph recorded, StepNodes* added);

// Makes `after` depend on `before`; counts the edges that it makes programmatic, if these are wanted.
std::string AddEdge(CUgraph graph, const StepNodes& before, const StepNodes& after, bool programmatic,
                    std::int64_t* count);

// An event that a launch records when these steps have ended, which need not be its last.
std::string AddEvent(CUgraph graph, CUevent event, const std::vector<const StepNodes*>& after);

// A node that waits for what an event has been recorded behind when a launch is asked for; and a step that waits for it.
std::string AddWait(CUgraph graph, CUevent event, CUgraphNode* node);
std::string LetWait(CUgraph graph, CUgraphNode wait, const StepNodes& step);

// The same step with other addresses.
std::string UpdateLaunch(CUgraphExec exec, const StepNodes& step, const GpuLaunch& launch,
                         std::vector<void*>& arguments);
std::string UpdateRecorded(CUgraphExec exec, const StepNodes& step, CUgraph recorded);

}  // namespace tf_stitch
