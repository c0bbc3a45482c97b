"""A third target, all of it: AMD GPUs by HIP C++, whose warps have 64 threads, without asynchronous copies, clusters
and tensor cores. It shows what a target has to say, and that nothing else has to know. It was never run on such a GPU,
nor built by hipcc: here its kernels run on a CPU."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tf_stitch.device.spec import H200
from tf_stitch.emit.cuda import Dialect, join_cuda
from tf_stitch.targets.cuda import CUDA_TARGET

HIP_DEVICE = replace(H200, name="hip", target="hip", architecture="gfx942", shared_bytes=1 << 16, warp=64,
                     registers=1 << 17, largest_cluster=1, block_barriers=1, async_copies=False, tensor_cores=False,
                     tf32=False)
"""An H200 with another make of processor: its profile is invented, but for what follows from the numbers here."""

HIP = Dialect(r"""
#define TFS_WITHOUT_PTX
#define TFS_WARP 64
template <class T> __device__ __forceinline__ T tfs_shuffle_xor(T value, int mask) { return __shfl_xor(value, mask); }
__device__ __forceinline__ int tfs_ineg(int x) { return (int)(0u - (unsigned int)x); }
__device__ __forceinline__ float tfs_from_half(unsigned short h) {
  _Float16 x;
  __builtin_memcpy(&x, &h, sizeof x);
  return (float)x;
}
__device__ __forceinline__ unsigned short tfs_to_half(float f) {
  const _Float16 x = (_Float16)f;
  unsigned short h;
  __builtin_memcpy(&h, &x, sizeof h);
  return h;
}
__device__ __forceinline__ void tfs_start_dependents() {}
__device__ __forceinline__ void tfs_await_dependencies() {}
template <class T> __device__ __forceinline__ void tfs_read_late(T*&) {}
template <class T> __device__ __forceinline__ void tfs_is_here(const T&) {}
__device__ __forceinline__ unsigned int tfs_arrive(unsigned int* counter, unsigned int add) {
  return __hip_atomic_fetch_add(counter, add, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
}
__device__ __forceinline__ unsigned int tfs_arrived(const unsigned int* counter) {
  return __hip_atomic_load(counter, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT);
}
__device__ __forceinline__ void tfs_sleep() { __builtin_amdgcn_s_sleep(1); }
""")

# Libraries are those of CUDA: hipBLASLt takes what cuBLASLt takes.
HIP_TARGET = replace(
    CUDA_TARGET, name="hip", suffix="hip",
    emission=replace(CUDA_TARGET.emission, join=partial(join_cuda, dialect=HIP)))

HIP_MACHINE = """#define TFS_OTHER_INTRINSICS
#include "cuda_on_cpu.h"
template <class T> inline T __shfl_xor(T value, int mask) { return tfs_lane_xor<64>(value, mask); }
#define __HIP_MEMORY_SCOPE_AGENT 0
#define __hip_atomic_fetch_add(counter, add, order, scope) tfs_counter_add(counter, add)
#define __hip_atomic_load(counter, order, scope) tfs_counter_read(counter)
#define __builtin_amdgcn_s_sleep(n)
"""
"""What stands for such a GPU where its kernels run on a CPU (see cuda_on_cpu.run_on_cpu)."""
