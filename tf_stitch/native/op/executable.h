// What runs for one shape signature of a region: decoded once from the words that Python sends, then only read.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cuda/cuda_driver.h"
#include "op/device_memory.h"
#include "op/executable_format.h"

namespace tf_stitch {

class StepGraph;
class GpuModule;
class GraphPlaces;
struct GraphCounters;

// Words of a module's executables from here on refer to kernels, as a kind and a number; see convert/module_file.py.
constexpr std::int64_t kReference = std::int64_t{1} << 62, kReferenceKind = std::int64_t{1} << 56;
enum ReferenceKind : std::int64_t { kFunction = 0, kName = 1, kImage = 2, kImageBytes = 3 };

constexpr std::int64_t kBarrierBytes = 64;  // of a counter: each in a cache line of its own

struct StatePlan {
  int variable;
  bool fresh;  // written to a new buffer that becomes the value; else updated in place
};

// An output whose memory the steps update: before them it has to hold an input's value, which is as large.
struct Update {
  int output;
  int input;
};

struct ModuleImage {
  const void* image;  // in the executable's code
  std::int64_t bytes;
};

struct GpuLaunch : DeviceLaunchWords {
  CUfunction function = nullptr;  // these two are set by PrepareGpu
  bool waits = false;  // by itself, for kernels that it depends on (tfs_await_dependencies in emit/cuda_prelude.cu)
};

struct LibraryStep {
  std::shared_ptr<const LibraryCall> call;
  std::vector<Operand> args;
  std::shared_ptr<DeviceCall> on_device;  // set by PrepareGpu
};

using CpuLaunch = HostLaunchWords;
using Step = std::variant<CpuLaunch, GpuLaunch, Copy, LibraryStep>;

struct Executable {
  std::shared_ptr<const void> code;  // what its addresses point into; null: it stays for the process's life
  std::vector<std::int64_t> arena;  // bytes of each segment
  std::int64_t bytes = 0;  // of everything a run touches
  std::vector<std::vector<std::int64_t>> outputs;  // dims of each
  std::vector<StatePlan> state;
  std::vector<Update> updated;
  std::vector<ModuleImage> modules;
  std::vector<Step> steps;
  std::vector<std::vector<int>> after;  // for each step the earlier ones it waits for
  // Of each step, for profilers, "" where it has none; empty if all have; null: no profiler has been there. By
  // std::atomic_load and std::atomic_store.
  std::shared_ptr<const std::vector<std::string>> labels;
  std::int64_t barriers = 0;            // counters of grid barriers
  std::shared_ptr<char> barrier_memory;  // of all of them; set by PrepareGpu, zero at first, kept from run to run
  std::vector<std::shared_ptr<const GpuModule>> loaded;  // set by PrepareGpu; of `modules`
  std::shared_ptr<StepGraph> graph;                      // set by PrepareGpu

  // Scratch memory that a run needs for its library calls on a GPU; 0: none. Asked for anew by every run.
  std::size_t WorkspaceBytes() const;
};

// What an executable is checked against: sizes in bytes; shapes are those of its key.
struct Extents {
  using Check = std::function<std::string(const Executable&)>;

  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> variables;
  std::vector<std::int64_t> output_items;  // of one element
  std::vector<std::int32_t> variable_types;
  bool on_gpu = false;
  DeviceMemory memory;
  // Of words from a module: what they were before addresses took their places, so that no other number passes for an
  // address. Null: they come from Python, whose addresses are believed.
  const std::vector<std::int64_t>* references = nullptr;
  Check refuse;  // why it must not run, "" if it may; null: it may
};

// Decodes and checks `words` (placement/executable_format.py describes the encoding).
// Returns "" or what is wrong; after an error `executable` must not be used.
std::string Decode(const std::vector<std::int64_t>& words, const Extents& extents, Executable* executable);

// Loads modules and resolves kernels in `context`, which must be current. Returns "" or what is wrong, among it a
// cooperative launch whose blocks cannot all be resident: its grid barrier would never end. `aligned`: as its key says.
// `counters` and `places` outlive it.
std::string PrepareGpu(CUcontext context, bool aligned, GraphCounters* counters, GraphPlaces* places,
                       Executable* executable);

}  // namespace tf_stitch
