// What runs for one shape signature of a region: decoded once from the words that Python sends, then only read.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cuda/cuda_driver.h"
#include "op/gemm.h"
#include "cpu/stitch_abi.h"

namespace tf_stitch {

class StepGraph;
class GraphPlaces;
struct GraphCounters;

// Where a kernel operand lives; the numbers are part of the encoding.
enum class Space : std::int64_t { kInput = 0, kOutput = 1, kVariable = 2, kFresh = 3, kArena = 4, kBarrier = 5 };

constexpr std::int64_t kBarrierBytes = 64;  // of a counter: each in a cache line of its own

struct Operand {
  Space space;
  std::int64_t index;  // input, output, variable, state entry or counter; for kArena the offset in bytes
  int segment = 0;     // of the arena; `index` counts from its beginning
};

struct OutputPlan {
  std::vector<std::int64_t> dims;
  std::vector<int> forward;  // inputs whose buffer the output may take over
};

struct StatePlan {
  int variable;
  bool fresh;  // written to a new buffer that becomes the value; else updated in place
};

struct ModuleImage {
  const void* image;  // stays valid for the process's life
  std::int64_t bytes;
};

struct CpuLaunch {
  tfs_cpu_kernel kernel;
  std::vector<Operand> args;
  std::vector<std::int64_t> sizes;  // a pointer to them follows the operands, if there are any
};

struct GpuLaunch {
  int module;
  const char* symbol;  // stays valid for the process's life
  unsigned grid[3];
  unsigned block[3];
  unsigned dynamic_shared_bytes;
  bool cooperative;
  std::vector<Operand> args;
  std::vector<std::int64_t> sizes;  // parameters after the operands
  CUfunction function = nullptr;  // these two are set by PrepareGpu
  bool waits = false;  // by itself, for kernels that it depends on (tfs_begin in emit/cuda_prelude.cu)
};

struct Fill {
  Operand target;
  std::int64_t bytes;
  int value;
};

struct Copy {
  Operand target;
  Operand source;
  std::int64_t bytes;
};

struct Gemm {
  GemmSpec spec;
  std::vector<Operand> args;
  std::shared_ptr<GpuGemm> gpu;  // set by PrepareGpu
};

using Step = std::variant<CpuLaunch, GpuLaunch, Fill, Copy, Gemm>;

struct Executable {
  std::vector<std::int64_t> arena;  // bytes of each segment
  std::int64_t bytes = 0;  // of everything a run touches
  std::vector<OutputPlan> outputs;
  std::vector<StatePlan> state;
  std::vector<ModuleImage> modules;
  std::vector<Step> steps;
  std::vector<std::vector<int>> after;  // for each step the earlier ones it waits for
  std::int64_t barriers = 0;            // counters of grid barriers
  std::shared_ptr<char> barrier_memory;  // of all of them; set by PrepareGpu, zero at first, kept from run to run
  std::shared_ptr<StepGraph> graph;  // set by PrepareGpu

  // Scratch memory that a run needs for its products on a GPU; 0: none. Asked for anew by every run.
  std::size_t WorkspaceBytes() const;
};

// Sizes that an executable is checked against, in bytes; shapes are those of its key.
struct Extents {
  std::vector<std::int64_t> inputs;
  std::vector<std::int64_t> variables;
  std::vector<std::int64_t> output_items;  // of one element
  std::vector<std::int32_t> variable_types;
  bool on_gpu = false;
};

// Decodes and checks `words` (bindings.py describes the encoding).
// Returns "" or what is wrong; after an error `executable` must not be used.
std::string Decode(const std::vector<std::int64_t>& words, const Extents& extents, Executable* executable);

// Loads modules and resolves kernels in `context`, which must be current. Returns "" or what is wrong, among it a
// cooperative launch whose blocks cannot all be resident: its grid barrier would never end. `aligned`: as its key says.
// `counters` and `places` outlive it.
std::string PrepareGpu(CUcontext context, bool aligned, GraphCounters* counters, GraphPlaces* places,
                       Executable* executable);

}  // namespace tf_stitch
