// What Python calls through ctypes; typed and described in bindings.py.
#include <cstdint>
#include <sstream>

#include "cuda/call_trial.h"
#include "cuda/cudnn_handles.h"
#include "cuda/nccl_library.h"
#include "loop/interruption.h"
#include "op/allocation_faults.h"
#include "op/gemm.h"
#include "op/callbacks.h"
#include "op/first_copy.h"
#include "op/module_file.h"
#include "op/region_names.h"
#include "cuda/cuda_graph.h"
#include "op/region_runtime.h"
#include "op/runtime_registry.h"
#include "tf_stitch.h"

#ifndef TFS_SOURCES
#define TFS_SOURCES ""  // not built by build.py
#endif
#define TFS_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using tf_stitch::FallbackCall;

constexpr auto kExitPatience = std::chrono::seconds(5);

FallbackCall& Call(void* call) { return *static_cast<FallbackCall*>(call); }

std::vector<std::string> Lines(const char* text) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) found.push_back(line);
  return found;
}

std::vector<std::int64_t> Dims(std::int32_t rank, const std::int64_t* dims) { return {dims, dims + rank}; }

}  // namespace

TFS_EXPORT void tfs_set_callbacks(tf_stitch::tfs_build_fn build, tf_stitch::tfs_fallback_subgraph_fn fallback_subgraph,
                                  tf_stitch::tfs_fallback_fn fallback, tf_stitch::tfs_recall_fn recall,
                                  tf_stitch::tfs_settle_fn settle, tf_stitch::tfs_not_timed_fn not_timed,
                                  tf_stitch::tfs_labels_fn labels, tf_stitch::tfs_left_fn left,
                                  tf_stitch::tfs_smaller_fn smaller) {
  if (build == nullptr || fallback_subgraph == nullptr || fallback == nullptr) {
    tf_stitch::Gate().Clear(kExitPatience);
  } else {
    tf_stitch::Gate().Set({build, fallback_subgraph, fallback, recall, settle, not_timed, labels, left, smaller});
  }
}

TFS_EXPORT void tfs_result_set(void* result, const std::int64_t* words, std::int64_t n) {
  static_cast<tf_stitch::BuildResult*>(result)->words.assign(words, words + n);
}
TFS_EXPORT void tfs_result_error(void* result, const char* message) {
  static_cast<tf_stitch::BuildResult*>(result)->error = message;
}
TFS_EXPORT void tfs_result_fallback_bytes(void* result, std::int64_t bytes) {
  static_cast<tf_stitch::BuildResult*>(result)->fallback_bytes = bytes;
}

TFS_EXPORT void tfs_fail_allocation(std::int64_t after) { tf_stitch::AllocationsToFailure().store(after); }

TFS_EXPORT void tfs_label_set(void* labels, std::int32_t step, const char* label) {
  static_cast<std::vector<std::string>*>(labels)->at(step) = label;
}

TFS_EXPORT void tfs_fallback_subgraph_set(void* result, const char* function, std::int64_t bytes) {
  static_cast<tf_stitch::FallbackSubgraphResult*>(result)->function.assign(function, static_cast<std::size_t>(bytes));
}

TFS_EXPORT void tfs_enable_profitability_check(std::int32_t enabled, std::int64_t series_apart_ns,
                                               double shadow_share) {
  tf_stitch::EnableProfitabilityCheck(enabled != 0, series_apart_ns, shadow_share);
}

// From now on graphs name regions with this token.
TFS_EXPORT void tfs_require_token(std::int64_t token) { tf_stitch::GraphToken().store(token); }

// `folders` are separated by newlines.
TFS_EXPORT void tfs_restrict_modules(const char* folders) { tf_stitch::RestrictModules(Lines(folders)); }

TFS_EXPORT void tfs_interrupt_loops(std::int32_t interrupted) {
  tf_stitch::LoopsInterrupted().store(interrupted != 0);
}

// Whether the ops of this copy of the library run, and the path of the copy whose do; valid until the thread's next call.
TFS_EXPORT std::int32_t tfs_serves() { return tf_stitch::IsFirstCopy(); }
TFS_EXPORT const char* tfs_serving_library() {
  thread_local std::string path;
  path = tf_stitch::ServingLibrary();
  return path.c_str();
}

// Digest of the sources that this library is built of.
TFS_EXPORT const char* tfs_sources() { return TFS_SOURCES; }

TFS_EXPORT std::int64_t tfs_stat(int which) {
  static const auto other = reinterpret_cast<std::int64_t (*)(int)>(tf_stitch::InServingCopy("tfs_stat"));
  if (other != nullptr) return other(which);
  switch (which) {
    case TFS_RUNS:
      return tf_stitch::SumRuns(-1);
    case TFS_MISSES:
      return tf_stitch::GlobalCounters().misses.load();
    case TFS_BUILDS:
      return tf_stitch::GlobalCounters().builds.load();
    case TFS_FALLBACKS:
      return tf_stitch::SumFallbacks(-1);
    default:
      return -1;
  }
}

TFS_EXPORT void tfs_visit_shapes(tfs_shape_fn visit, void* context) {
  static const auto other =
      reinterpret_cast<void (*)(tfs_shape_fn, void*)>(tf_stitch::InServingCopy("tfs_visit_shapes"));
  if (other != nullptr) return other(visit, context);
  for (const tf_stitch::ShapeRecord& one : tf_stitch::AllShapes()) {
    visit(context, one.model.c_str(), one.region, one.shape.c_str(), one.runs, one.fallbacks);
  }
}

TFS_EXPORT std::int64_t tfs_region_runs(std::int64_t region) { return tf_stitch::SumRuns(region); }
TFS_EXPORT std::int64_t tfs_region_fallbacks(std::int64_t region) { return tf_stitch::SumFallbacks(region); }

TFS_EXPORT std::int64_t tfs_region_preferred_fallbacks(std::int64_t region) {
  return tf_stitch::SumPreferredFallbacks(region);
}
TFS_EXPORT std::int32_t tfs_region_kernels(std::int64_t region) { return tf_stitch::KernelsOf(region); }
TFS_EXPORT std::int64_t tfs_region_shadows(std::int64_t region) { return tf_stitch::SumShadows(region); }

using tfs_reason_fn = void (*)(std::int64_t region, const char* reason, std::int64_t count);
TFS_EXPORT void tfs_visit_reasons(tfs_reason_fn visit) {
  for (const tf_stitch::ReasonRecord& one : tf_stitch::AllReasons()) visit(one.region, one.reason.c_str(), one.count);
}

TFS_EXPORT std::int32_t tfs_call_num_inputs(void* call) { return Call(call).num_inputs; }
TFS_EXPORT std::int32_t tfs_call_num_variables(void* call) {
  return static_cast<std::int32_t>(Call(call).values.size()) - Call(call).num_inputs;
}
TFS_EXPORT std::int32_t tfs_call_num_outputs(void* call) {
  return static_cast<std::int32_t>(Call(call).output_types.size());
}
TFS_EXPORT std::int32_t tfs_call_output_type(void* call, int index) { return Call(call).output_types.at(index); }
TFS_EXPORT std::int32_t tfs_call_device(void* call) { return Call(call).device; }

TFS_EXPORT const char* tfs_call_reason(void* call) { return Call(call).reason.c_str(); }

TFS_EXPORT const void* tfs_call_input(void* call, int index, std::int32_t* type, std::int32_t* rank,
                                      const std::int64_t** dims) {
  const FallbackCall::View& view = Call(call).values.at(index);
  *type = view.type;
  *rank = static_cast<std::int32_t>(view.dims.size());
  *dims = view.dims.data();
  return view.data;
}

TFS_EXPORT void* tfs_call_output(void* call, int index, std::int32_t rank, const std::int64_t* dims) {
  return Call(call).Output(index, Dims(rank, dims));
}
TFS_EXPORT void* tfs_call_state(void* call, int variable, std::int32_t rank, const std::int64_t* dims) {
  return Call(call).State(variable, Dims(rank, dims));
}
TFS_EXPORT std::int32_t tfs_call_same_as(void* call, int variable) { return Call(call).same_as.at(variable); }
TFS_EXPORT void tfs_call_error(void* call, std::int32_t code, const char* message) {
  Call(call).error = message;
  Call(call).error_code = code;
}

// `files` are separated by newlines. Returns "" or why there is no cuBLASLt; valid until the thread's next call.
TFS_EXPORT const char* tfs_load_cublas_lt(const char* files) {
  thread_local std::string error;
  error = tf_stitch::LoadCublasLt(Lines(files));
  return error.c_str();
}

// As tfs_load_cublas_lt, of NCCL; once for the process.
TFS_EXPORT const char* tfs_load_nccl(const char* files) { return tf_stitch::LoadNccl(Lines(files)).c_str(); }

// As tfs_load_cublas_lt, of cuDNN.
TFS_EXPORT const char* tfs_load_cudnn(const char* files) {
  thread_local std::string error;
  error = tf_stitch::LoadCudnn(Lines(files));
  return error.c_str();
}

TFS_EXPORT std::int64_t tfs_cudnn_version() { return static_cast<std::int64_t>(tf_stitch::CudnnVersion()); }

// Returns "" or why the GPU cannot make the calls of an executable; valid until the thread's next call.
TFS_EXPORT const char* tfs_try_calls(std::int32_t device, const std::int64_t* words, std::int64_t n) {
  thread_local std::string error;
  error = tf_stitch::TryCalls(device, {words, words + n});
  return error.c_str();
}

// Returns "" or why what an executable runs on a GPU could not be loaded; valid until the thread's next call. `bytes`: of
// each input, then of each variable, then of one element of each output.
TFS_EXPORT const char* tfs_load_ahead(std::int32_t device, const std::int64_t* words, std::int64_t n,
                                      const std::int64_t* bytes, std::int64_t inputs, std::int64_t variables,
                                      std::int64_t outputs) {
  thread_local std::string error;
  const std::int64_t *const end = bytes + inputs, *const last = end + variables;
  tf_stitch::Extents extents;
  extents.on_gpu = true;
  extents.inputs.assign(bytes, end);
  extents.variables.assign(end, last);
  extents.output_items.assign(last, last + outputs);
  error = tf_stitch::LoadAhead(device, {words, words + n}, extents);
  return error.c_str();
}

TFS_EXPORT void tfs_set_graphs(int limit, int programmatic) { tf_stitch::SetGraphs(limit, programmatic != 0); }

// `counts`: those of GraphCounters, in its order; `error` is of the last failure.
using tfs_graphs_fn = void (*)(std::int64_t region, std::int32_t device, const std::int64_t* counts, const char* error);
TFS_EXPORT void tfs_visit_graphs(tfs_graphs_fn visit) {
  for (const tf_stitch::GraphRecord& one : tf_stitch::AllGraphs()) {
    visit(one.region, one.device, one.counts, one.error.c_str());
  }
}
