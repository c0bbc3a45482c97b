// The executor "TF_STITCH": a function that is a region, and next to nothing beside it, runs in the thread that calls it.
//
// TensorFlow's executor begins and ends in threads of a pool, and who called the function waits: three threads wake up,
// one after the other, for a graph in which one op has something to do. Each argument is an op there, too, and a region
// has hundreds of variables.
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>

#include "absl/strings/match.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/common_runtime/executor.h"
#include "tensorflow/core/common_runtime/executor_factory.h"
#include "tensorflow/core/common_runtime/local_executor_params.h"
#include "tensorflow/core/graph/graph.h"
#include "op/first_copy.h"
#include "op/single_threaded_executor.h"

namespace tf_stitch {
namespace {

using tensorflow::Executor;
using tensorflow::Node;

constexpr int kFewOps = 16;  // beside regions on a GPU, where one thread enqueues all ops anyhow

class CallersExecutor final : public Executor {
 public:
  explicit CallersExecutor(Executor* steps) : steps_(steps) {}
  absl::Status Run(const Args& args) override { return steps_->Run(args); }

 private:
  void RunAsyncInternal(const Args& args, DoneCallback done) override { done(steps_->Run(args)); }

  const std::unique_ptr<Executor> steps_;
};

bool IsRegion(const Node& node) {
  static const auto* ours =
      new std::unordered_set<std::string>{"StitchOp", "StitchStateOp", "StitchUpload", "StitchWhile"};
  return ours->count(node.type_string()) != 0;
}

// No kernel's work: it hands on what is there, or its size.
bool DoesNothing(const Node& node) {
  static const auto* others = new std::unordered_set<std::string>{
      "ExpandDims", "NoOp", "Rank", "ReadVariableOp", "Reshape", "Shape", "Size", "Squeeze", "StitchHandle",
      "StopGradient"};
  return node.IsArg() || node.IsRetval() || node.IsConstant() || node.IsIdentity() ||
         others->count(node.type_string()) != 0;
}

// Whether it runs functions, perhaps in turns: each turn that ends at once would call the next one, ever deeper.
bool RunsFunctions(const Node& node) {
  for (const auto& [name, value] : node.attrs()) {
    if (value.has_func() || value.list().func_size() != 0) return true;
  }
  return false;
}

// Whether it may wait for what another graph does: for another device's part of an all-reduce, for a queue's next
// element. Such ops have a state; those that read or write variables, or draw numbers, wait for nobody.
bool MayWaitForOthers(const Node& node) {
  if (!node.op_def().is_stateful()) return false;
  for (const char* harmless : {"Assign", "Random", "ReadVariable", "Resource", "TruncatedNormal"}) {
    if (absl::StartsWith(node.type_string(), harmless)) return false;
  }
  return true;
}

// Whether a graph has a region, and nothing that other threads could do meanwhile, or that waits for other graphs.
bool SuitsOneThread(const tensorflow::Graph& graph, bool on_gpu) {
  int regions = 0, others = 0;
  for (const Node* node : graph.op_nodes()) {
    if (RunsFunctions(*node) || !tensorflow::ValidateOpIsSafeForSyncExecution(*node, false).ok()) return false;
    if (IsRegion(*node)) {
      ++regions;
    } else if (!DoesNothing(*node)) {
      if (MayWaitForOthers(*node)) return false;
      ++others;
    }
  }
  return on_gpu ? regions > 0 && others <= kFewOps : regions == 1 && others == 0;
}

class Factory final : public tensorflow::ExecutorFactory {
  absl::Status NewExecutor(const tensorflow::LocalExecutorParams& params, const tensorflow::Graph& graph,
                           std::unique_ptr<Executor>* executor) override {
    Executor* steps = nullptr;
    if (SuitsOneThread(graph, params.device->device_type() == tensorflow::DEVICE_GPU) &&
        tensorflow::NewSingleThreadedExecutor(params, graph, &steps).ok()) {
      *executor = std::make_unique<CallersExecutor>(steps);
      return absl::OkStatus();
    }
    return tensorflow::NewExecutor("", params, graph, executor);  // TensorFlow's default, and what is wrong, if anything
  }
};

const bool registered = [] {
  const bool found = SingleThreadedExecutorFound();
  if (found && IsFirstCopy()) tensorflow::ExecutorFactory::Register("TF_STITCH", new Factory);
  return found;
}();

}  // namespace
}  // namespace tf_stitch

// Whether functions may ask for the executor.
extern "C" __attribute__((visibility("default"))) std::int32_t tfs_callers_executor() { return tf_stitch::registered; }
