// What TensorFlow does to a graph before it runs it, for a fallback subgraph: a function that a library instantiates for one
// device gets none of it.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/graph_to_functiondef.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/grappler/optimizers/meta_optimizer.h"
#include "tensorflow/core/public/session_options.h"
#include "tensorflow/core/util/util.h"

namespace tf_stitch {

// Serialized ConfigProto, of graph_options.rewrite_options { memory_optimization: NO_MEM_OPT use_plugin_optimizers: OFF }.
// Our own hook is a plug-in: it would form regions in the nodes of a region. Optimizing memory guesses what ops cost, and
// complains on stderr where shapes are unknown.
constexpr char kRewrites[] = "\x52\x07\x52\x05\x20\x01\xe0\x01\x02";

// Grappler, which fuses matmuls, convolutions and what follows them. The graph is as it was where Grappler fails.
inline void Optimize(const tensorflow::FunctionBody& body, tensorflow::Device* device,
                     tensorflow::FunctionLibraryDefinition* library, std::unique_ptr<tensorflow::Graph>* graph) {
  std::vector<std::string> results, kept;
  for (const tensorflow::Node* node : body.ret_nodes) results.push_back(node->name());
  for (const tensorflow::Node* node : body.arg_nodes) kept.push_back(node->name());
  for (const tensorflow::Node* node : body.control_ret_nodes) kept.push_back(node->name());
  tensorflow::ConfigProto config;
  if (!config.ParseFromString(kRewrites)) return;
  tensorflow::DeviceSet devices;
  devices.AddDevice(device);
  devices.set_client_device(device);
  tensorflow::grappler::GrapplerItem::OptimizationOptions options;
  options.allow_pruning_stateful_and_dataset_ops = false;
  auto optimized = std::make_unique<tensorflow::Graph>(tensorflow::OpRegistry::Global());
  tensorflow::CopyGraph(**graph, optimized.get());
  for (tensorflow::Node* node : optimized->op_nodes()) node->set_assigned_device_name(device->name());
  if (!tensorflow::grappler::OptimizeGraph(results, kept, library, devices, device, config, "tf_stitch_own_nodes", options,
                                           &optimized).ok()) {
    return;
  }
  for (tensorflow::Node* node : optimized->op_nodes()) {  // kernels of other devices of the kind share the function
    node->set_assigned_device_name("");
    node->set_requested_device("");
  }
  *graph = std::move(optimized);
}

// The passes that follow partitioning. oneDNN's ops are chosen there; some ops that Grappler writes for it
// (_FusedDepthwiseConv2dNative) have no other kernel than one that does nothing.
inline absl::Status RunPartitionPasses(tensorflow::FunctionLibraryDefinition* library,
                                       std::unordered_map<std::string, std::unique_ptr<tensorflow::Graph>>* graphs) {
  tensorflow::SessionOptions session;
  tensorflow::GraphOptimizationPassOptions options;
  options.session_options = &session;
  options.flib_def = library;
  options.is_function_graph = true;
  options.partition_graphs = graphs;
  return tensorflow::OptimizationPassRegistry::Global()->RunGrouping(
      tensorflow::OptimizationPassRegistry::POST_PARTITIONING, options);
}

// The function as a CPU should run it. `device`: Grappler is to run, too; null: it has.
inline absl::Status RunPasses(tensorflow::Device* device, tensorflow::FunctionDef* function) {
  if (device == nullptr && !tensorflow::IsMKLEnabled()) return absl::OkStatus();
  tensorflow::FunctionLibraryDefinition library(tensorflow::OpRegistry::Global(), tensorflow::FunctionDefLibrary());
  std::unique_ptr<tensorflow::FunctionBody> body;
  TF_RETURN_IF_ERROR(
      tensorflow::FunctionDefToBodyHelper(*function, tensorflow::AttrSlice(&function->attr()), &library, &body));
  std::unordered_map<std::string, std::unique_ptr<tensorflow::Graph>> graphs;
  auto& graph = graphs["/device:CPU:0"] = std::make_unique<tensorflow::Graph>(tensorflow::OpRegistry::Global());
  tensorflow::CopyGraph(*body->graph, graph.get());
  if (device != nullptr) Optimize(*body, device, &library, &graph);
  if (tensorflow::IsMKLEnabled()) TF_RETURN_IF_ERROR(RunPartitionPasses(&library, &graphs));

  const auto must_run = [function](const tensorflow::Node* node) -> std::optional<std::string> {
    const auto& names = function->signature().control_output();
    const bool is = std::find(names.begin(), names.end(), node->name()) != names.end();
    return is ? std::make_optional(node->name()) : std::nullopt;
  };
  tensorflow::FunctionDef passed;
  TF_RETURN_IF_ERROR(tensorflow::GraphToFunctionDef(*graph, function->signature().name(), must_run, &passed));
  if (passed.signature().output_arg_size() != function->signature().output_arg_size() ||
      passed.control_ret_size() != function->control_ret_size()) {
    return absl::InternalError("tf_stitch: TensorFlow's passes took results from a region's own nodes");
  }
  *passed.mutable_attr() = function->attr();
  passed.mutable_signature()->set_is_stateful(function->signature().is_stateful());
  *function = std::move(passed);
  return absl::OkStatus();
}

}  // namespace tf_stitch
