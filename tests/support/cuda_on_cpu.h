// CUDA C++ as emit/cuda.py writes it, for g++: stands before the emitted source, which stays as it is. Threads are fibres
// (fibres.cc). The PTX of cuda_prelude.cu and attention_ptx.cu is given its meaning here and in tensor_cores_on_cpu.h.
#pragma once
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <limits>
#include <utility>

#include "fibres.h"

#define __device__
#define __global__
#define __shared__ thread_local  // see fibres.cc
#define __constant__ static
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __cluster_dims__(blocks, y, z)
#define int64_t tfs_int64  // the prelude's is long long
#define uint64_t tfs_uint64
typedef long long int64_t;
typedef unsigned long long uint64_t;

constexpr int TFS_SHARED_ROOM = 1 << 18;
alignas(16) thread_local unsigned char tfs_shared[TFS_SHARED_ROOM];

#define __expf(x) expf(x)
#define __fdividef(x, y) ((x) / (y))
#define __fmaf_rn(x, y, z) fmaf(x, y, z)

template <class To, class From> inline To tfs_same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
inline float __int_as_float(int x) { return tfs_same_bits<float>(x); }
inline int __float_as_int(float x) { return tfs_same_bits<int>(x); }
inline float __uint_as_float(unsigned int x) { return tfs_same_bits<float>(x); }
inline unsigned int __float_as_uint(float x) { return tfs_same_bits<unsigned int>(x); }
// cvt.rzi: the nearest integer that there is; of a NaN the smallest one, but 0 for a float to an int.
template <class To, class From> inline To tfs_truncated(From x, To of_nan) {
  constexpr auto least = std::numeric_limits<To>::min(), most = std::numeric_limits<To>::max();
  if (x != x) return of_nan;
  if (x <= (From)least) return least;
  return x >= -(From)least ? most : (To)x;
}
inline int __float2int_rz(float x) { return tfs_truncated<int>(x, 0); }
inline long long __float2ll_rz(float x) { return tfs_truncated<long long>(x, LLONG_MIN); }
inline int __double2int_rz(double x) { return tfs_truncated<int>(x, INT_MIN); }
inline long long __double2ll_rz(double x) { return tfs_truncated<long long>(x, LLONG_MIN); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }

inline void __syncthreads() { tfs_block_barrier(); }
inline void __syncwarp() { tfs_exchange("", 0); }
template <int Warp, class T> inline T tfs_lane_xor(T value, int mask) {
  static_assert(sizeof(T) <= TFS_LANE_BYTES);
  T other;
  const auto all = tfs_exchange(&value, sizeof value);
  memcpy(&other, all[tfs_thread_number() % Warp ^ mask], sizeof other);
  return other;
}
// Kernels that people wrote (tf_stitch/hfuse).
struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
};
struct alignas(16) uint4 { unsigned int x, y, z, w; };
inline uint3 make_uint3(unsigned int x, unsigned int y, unsigned int z) { return {x, y, z}; }
template <int Id, int Threads> inline void hfuse_bar_sync() { tfs_partial_barrier(Id, Threads, 0, TFS_COUNT); }
template <int Id, int Threads> inline int hfuse_bar_count(int p) { return tfs_partial_barrier(Id, Threads, p, TFS_COUNT); }
template <int Id, int Threads> inline int hfuse_bar_and(int p) { return tfs_partial_barrier(Id, Threads, p, TFS_AND); }
template <int Id, int Threads> inline int hfuse_bar_or(int p) { return tfs_partial_barrier(Id, Threads, p, TFS_OR); }
template <int Id, int Threads> inline bool hfuse_bar_meet(bool p) { return tfs_partial_barrier(Id, Threads, p, TFS_OR); }
inline int tfs_whole_block(int p, tfs_together how) {
  return tfs_partial_barrier(0, blockDim.x * blockDim.y * blockDim.z, p, how);
}
inline int __syncthreads_count(int p) { return tfs_whole_block(p, TFS_COUNT); }
inline int __syncthreads_and(int p) { return tfs_whole_block(p, TFS_AND); }
inline int __syncthreads_or(int p) { return tfs_whole_block(p, TFS_OR); }
template <class T> inline T tfs_lane(T value, int lane) {
  T other;
  memcpy(&other, tfs_exchange(&value, sizeof value)[lane], sizeof other);
  return other;
}
template <class T> inline T __shfl_sync(unsigned int, T value, int lane, int width = 32) {
  return tfs_lane(value, (tfs_thread_number() % 32 & ~(width - 1)) + lane % width);
}
template <class T> inline T __shfl_down_sync(unsigned int, T value, unsigned int by, int width = 32) {
  const unsigned int own = tfs_thread_number() % 32;
  return tfs_lane(value, own % width + by < (unsigned int)width ? own + by : own);
}
template <class T, class U> inline T atomicAdd(T* at, U by) { const T old = *at; *at = old + by; return old; }
template <class T, class U> inline T atomicMax(T* at, U by) { const T old = *at; *at = old < by ? by : old; return old; }
template <class T, class U> inline T atomicMin(T* at, U by) { const T old = *at; *at = by < old ? by : old; return old; }
template <class T> inline T atomicCAS(T* at, T seen, T by) { const T old = *at; if (old == seen) *at = by; return old; }
inline long long __double_as_longlong(double x) { return tfs_same_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return tfs_same_bits<double>(x); }
template <class T> inline T __ldg(const T* at) { return *at; }
inline unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int s) {
  const unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned int result = 0;
  for (int i = 0; i < 4; ++i) result |= (unsigned int)(both >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
  return result;
}
inline unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int by) {
  return by % 32 ? high << by % 32 | low >> (32 - by % 32) : high;
}
inline unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int by) {
  return by % 32 ? low >> by % 32 | high << (32 - by % 32) : low;
}
template <class A, class B> inline auto min(A a, B b) { return a < b ? a : b; }
template <class A, class B> inline auto max(A a, B b) { return a < b ? b : a; }

#ifndef TFS_OTHER_INTRINSICS  // CUDA's
#define __CUDA_ARCH__ 900
#define TFS_WITHOUT_PTX
#define TFS_WARP 32
template <class T> inline T __shfl_xor_sync(unsigned int, T value, int mask) { return tfs_lane_xor<TFS_WARP>(value, mask); }

// cuda_prelude.cu.
template <class T> inline T tfs_shuffle_xor(T value, int mask) { return tfs_lane_xor<TFS_WARP>(value, mask); }
inline int32_t tfs_ineg(int32_t x) { return (int32_t)(0 - (uint32_t)x); }
inline float tfs_from_half(uint16_t h) { return (float)tfs_same_bits<_Float16>(h); }
inline uint16_t tfs_to_half(float f) { return tfs_same_bits<uint16_t>((_Float16)f); }
inline void tfs_start_dependents() {}
inline void tfs_await_dependencies() {}
template <class T> inline void tfs_read_late(T*&) {}
template <class T> inline void tfs_is_here(const T&) {}
inline unsigned int tfs_arrive(unsigned int* counter, unsigned int add) { return tfs_counter_add(counter, add); }
inline unsigned int tfs_arrived(const unsigned int* counter) { return tfs_counter_read(counter); }
inline void tfs_sleep() {}
template <int Id, int Threads> struct tfs_thread_range {
  static void wait() { tfs_partial_barrier(Id, Threads, 0, TFS_COUNT); }
  static bool all(bool yes) { return tfs_partial_barrier(Id, Threads, yes, TFS_AND); }
};
inline void tfs_cluster_start() { tfs_cluster_arrive(); }
inline void tfs_cluster_started() { tfs_cluster_wait(); }
inline void tfs_cluster_barrier() { tfs_cluster_arrive(); tfs_cluster_wait(); }
template <class T> inline T* tfs_in_block(T* own, unsigned int block) { return (T*)tfs_of_block(own, block); }
inline void tfs_begin_async_copy(void* to, const void* from) { tfs_copy_begin(to, from, true); }
inline void tfs_commit_async_copies() { tfs_copies_commit(); }
template <int Pending> inline void tfs_await_async_copies() { tfs_copies_await(Pending); }

#include "tensor_cores_on_cpu.h"
#include "tensor_maps_on_cpu.h"
#endif

// A launch's function as one that takes its arguments as words of 64 bits, of which it takes the first bytes.
template <class T> inline T tfs_argument(const uint64_t& word) {
  static_assert(sizeof(T) <= sizeof word);
  T value;
  memcpy(&value, &word, sizeof value);
  return value;
}
template <class... T, size_t... I> inline void tfs_call(void (*kernel)(T...), const uint64_t* words, std::index_sequence<I...>) {
  kernel(tfs_argument<T>(words[I])...);
}
template <class... T> inline void tfs_call(void (*kernel)(T...), const uint64_t* words) {
  tfs_call(kernel, words, std::index_sequence_for<T...>());
}
#define TFS_EXPORT extern "C" __attribute__((visibility("default")))
#define TFS_LAUNCH(name) TFS_EXPORT void call_##name(const uint64_t* words) { tfs_call(name, words); }
TFS_EXPORT unsigned char* shared_room() { return tfs_shared; }
