// The contract between the StitchOp kernel and generated CPU kernels. Pure C: generated code includes it too.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Works on the half-open range [begin, end) of a parallel loop.
typedef void (*tfs_range_fn)(void* arg, int64_t begin, int64_t end);

// What a kernel may use of the runtime it runs in; valid for one kernel call.
typedef struct tfs_env {
  void* impl;
  int64_t num_threads;
  // Splits [0, total) over TensorFlow's CPU worker pool and returns when all of it is done.
  // cost_per_unit is in CPU cycles for one unit of the loop, as Eigen and tsl::thread::ThreadPool expect it.
  void (*parallel_for)(void* impl, int64_t total, int64_t cost_per_unit, tfs_range_fn fn, void* arg);
} tfs_env;

// args: the step's operands in order. Returns 0, or any other value when the kernel cannot run.
typedef int (*tfs_cpu_kernel)(const tfs_env* env, void* const* args);

#ifdef __cplusplus
}
#endif
