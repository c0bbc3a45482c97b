// TensorFlow's graph passes that follow partitioning. It runs them on every graph and multi-device function, but not on a
// function that a library instantiates for one device, as a fallback subgraph is.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/graph_to_functiondef.h"
#include "tensorflow/core/public/session_options.h"
#include "tensorflow/core/util/util.h"

namespace tf_stitch {

// The function after these passes, for a CPU. oneDNN's ops are chosen there; some ops that Grappler writes for it
// (_FusedDepthwiseConv2dNative) have no other kernel than one that does nothing.
inline absl::Status RunPartitionPasses(tensorflow::FunctionDef* function) {
  if (!tensorflow::IsMKLEnabled()) return absl::OkStatus();
  tensorflow::FunctionLibraryDefinition library(tensorflow::OpRegistry::Global(), tensorflow::FunctionDefLibrary());
  std::unique_ptr<tensorflow::FunctionBody> body;
  TF_RETURN_IF_ERROR(
      tensorflow::FunctionDefToBodyHelper(*function, tensorflow::AttrSlice(&function->attr()), &library, &body));
  std::unordered_map<std::string, std::unique_ptr<tensorflow::Graph>> graphs;
  auto& graph = graphs["/device:CPU:0"] = std::make_unique<tensorflow::Graph>(tensorflow::OpRegistry::Global());
  tensorflow::CopyGraph(*body->graph, graph.get());

  tensorflow::SessionOptions session;
  tensorflow::GraphOptimizationPassOptions options;
  options.session_options = &session;
  options.flib_def = &library;
  options.is_function_graph = true;
  options.partition_graphs = &graphs;
  TF_RETURN_IF_ERROR(tensorflow::OptimizationPassRegistry::Global()->RunGrouping(
      tensorflow::OptimizationPassRegistry::POST_PARTITIONING, options));

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
