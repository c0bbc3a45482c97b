// The way from a kernel into Python: building an executable, and running a region by its own TensorFlow nodes.
#pragma once
#include <cstdint>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "op/callback_gate.h"

namespace tf_stitch {

// One fallback run as Python sees it. All buffers are host memory and live until the callback returns.
class FallbackCall {
 public:
  struct View {
    const void* data;
    std::int32_t type;  // TensorFlow's DataType
    std::vector<std::int64_t> dims;
  };

  virtual ~FallbackCall() = default;
  // Host buffers to fill, or null for a bad index or shape.
  virtual void* Output(int index, std::vector<std::int64_t> dims) = 0;
  virtual void* State(int variable, std::vector<std::int64_t> dims) = 0;

  std::vector<View> values;  // inputs, then variables
  int num_inputs = 0;
  std::vector<std::int32_t> output_types;
  int device = -1;
  std::string reason;  // why the native kernels were not used
  std::vector<std::int32_t> same_as;  // per variable the first one that is the same resource, mostly itself
  std::string error;                  // set by Python
  std::int32_t error_code = 13;       // absl's; internal unless Python knows better
};

// What Python answers to a build request.
struct BuildResult {
  std::vector<std::int64_t> words;
  std::int64_t fallback_bytes = 0;  // that the region's own nodes have alive at once; 0: nobody knows
  std::string error;
};

constexpr int kNoThread = 4;
constexpr int kBuildPending = 3;  // what a build function returns to be asked again a little later
constexpr int kBuildInterrupted = 5;  // it failed for a reason that may pass

// What Python answers to a request for a region's own nodes.
struct FallbackSubgraphResult {
  std::string function;  // a serialized FunctionDef
};

extern "C" {
// `in_use`, `limit`: bytes that the device's allocator has handed out, and may hand out; 0 where it does not know.
typedef int (*tfs_build_fn)(std::int64_t region, std::int32_t device, const std::int64_t* key, std::int64_t n,
                            std::int64_t in_use, std::int64_t limit, void* result);
// There was no memory for an executable's kernels, before any ran: as build, of one that takes less. `free`: bytes that the
// device's allocator may still hand out; negative where it does not know.
typedef int (*tfs_smaller_fn)(std::int64_t region, std::int32_t device, const std::int64_t* key, std::int64_t n,
                              std::int64_t free, void* result);
// Before the region's own nodes run: `reason` says why in its place, "" because they are, or may be, faster.
typedef int (*tfs_fallback_subgraph_fn)(std::int64_t region, const char* reason, void* result);
typedef int (*tfs_fallback_fn)(std::int64_t region, void* call);
// The form that an earlier profitability check found faster: kStitchedVerdict, kFallbackVerdict or 0. `from_call` gets the
// first call of the region that it holds for (see Ruling).
typedef int (*tfs_recall_fn)(std::int64_t region, std::int32_t device, const std::int64_t* key, std::int64_t n,
                             std::int64_t* from_call);
// A profitability check has timed that many pairs, before call number `call`: as recall.
typedef int (*tfs_settle_fn)(std::int64_t region, std::int32_t device, const std::int64_t* key, std::int64_t n,
                             std::int32_t prefers_fallback, double stitched_us, double fallback_us, std::int32_t pairs,
                             std::int64_t call, std::int64_t* from_call);
// The region's own nodes could not be timed.
typedef void (*tfs_not_timed_fn)(std::int64_t region, const char* reason);
// What a profiler is to call the steps of an executable: tfs_label_set is called for those that have a name.
typedef void (*tfs_labels_fn)(std::int64_t region, std::int32_t device, const std::int64_t* key, std::int64_t n,
                              void* labels);
// No kernel runs the region any more, on one of its devices.
typedef void (*tfs_left_fn)(std::int64_t region);
}

constexpr int kStitchedVerdict = 101, kFallbackVerdict = 102;  // not kNoThread

struct Callbacks {
  tfs_build_fn build;
  tfs_fallback_subgraph_fn fallback_subgraph;
  tfs_fallback_fn fallback;
  // Null: what a process measures it alone knows.
  tfs_recall_fn recall;
  tfs_settle_fn settle;
  tfs_not_timed_fn not_timed;
  tfs_labels_fn labels;  // null: no step has a name
  tfs_left_fn left;  // null: nobody wants to know
  tfs_smaller_fn smaller;  // null: executables are as they are
};

// Calls Python in a thread of its own, and waits. The calling thread may be the program's (callers_executor.cc): what is
// open there (tapes, devices) is not for us, and Ctrl-C would end a build halfway. Not 0 if there is no thread to be had:
// the region falls back.
template <typename Call>
int InItsOwnThread(const Call& call) {
  int code = 0;
  try {
    std::thread([&] { code = call(); }).join();
  } catch (const std::system_error&) {
    return kNoThread;
  }
  return code;
}

inline CallbackGate<Callbacks>& Gate() {
  static auto* gate = new CallbackGate<Callbacks>;
  return *gate;
}

constexpr char kNoCallbacks[] =
    "tf_stitch is not active in this process any more (or never was), and this region has not been built for these "
    "shapes; import tensorflow with TF_STITCH=1, or rebuild the graph without tf_stitch";

}  // namespace tf_stitch
