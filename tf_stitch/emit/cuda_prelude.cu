// Helpers of generated CUDA kernels. No header is needed: NVRTC compiles this alone.
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;

// What C++ has no words for, one or two PTX instructions each. TFS_WITHOUT_PTX: somebody else gives their meaning, as a
// dialect (emit/cuda.py) and the tests that run kernels on a CPU do.
#ifndef TFS_WITHOUT_PTX
#define TFS_WARP 32
// The value of the lane whose number differs in the bits of `mask`; all lanes of the warp are here.
template <class T> __device__ __forceinline__ T tfs_shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
__device__ __forceinline__ int32_t tfs_ineg(int32_t x) {
  int32_t y;
  asm("{ .reg .b32 t; not.b32 t, %1; add.s32 %0, t, 1; }" : "=r"(y) : "r"(x));
  return y;
}

__device__ __forceinline__ float tfs_from_half(uint16_t h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
__device__ __forceinline__ uint16_t tfs_to_half(float f) {
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}

// Every launch begins with the first of these. In a CUDA graph a kernel may be started beside those it depends on
// (programmatic edges, native/cuda/graph_nodes.h): it lets those that depend on it be started as soon as its own blocks
// all have been; and all its threads wait, in the second one, until those it depends on have ended and what they wrote is
// visible. What none of them writes may be read before. Elsewhere they do nothing.
__device__ __forceinline__ void tfs_start_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void tfs_await_dependencies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// What is read through these pointers from here on is read after dependencies have ended. A compiler that knows of a parameter that
// nothing else reaches what it points to, and that the kernel only reads that, takes it for constant (ld.global.nc);
// ptxas moves such loads before griddepcontrol.wait, where an earlier kernel still writes what they read.
template <class T>
__device__ __forceinline__ void tfs_read_late(T*& pointer) {
#if __CUDA_ARCH__ >= 900
  asm volatile("" : "+l"(pointer) : : "memory");
  __builtin_assume(__isGlobal(pointer));
#endif
}

// What was loaded is here by now. No instruction; but a compiler that sees a load used once, in a branch say, would make
// it there, where what it takes is added to what the thread waited for before.
__device__ __forceinline__ void tfs_is_here(float x) { asm volatile("" : : "f"(x)); }
__device__ __forceinline__ void tfs_is_here(double x) { asm volatile("" : : "d"(x)); }
__device__ __forceinline__ void tfs_is_here(uint32_t x) { asm volatile("" : : "r"(x)); }
__device__ __forceinline__ void tfs_is_here(int32_t x) { asm volatile("" : : "r"(x)); }
__device__ __forceinline__ void tfs_is_here(int64_t x) { asm volatile("" : : "l"(x)); }
__device__ __forceinline__ void tfs_is_here(uint64_t x) { asm volatile("" : : "l"(x)); }

// Adds to a counter that blocks share; what it was. What this block did before is visible to those that see it.
__device__ __forceinline__ unsigned int tfs_arrive(unsigned int* counter, unsigned int add) {
  unsigned int before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(add) : "memory");
  return before;
}
__device__ __forceinline__ unsigned int tfs_arrived(const unsigned int* counter) {
  unsigned int now;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
  return now;
}
__device__ __forceinline__ void tfs_sleep() { asm volatile("nanosleep.u32 32;"); }

// A barrier of whole warps, Threads in all, of a block: one of its sixteen. It has no other threads.
template <int Id, int Threads> struct tfs_thread_range {
  static __device__ __forceinline__ void wait() { asm volatile("bar.sync %0, %1;" :: "n"(Id), "n"(Threads) : "memory"); }
  static __device__ __forceinline__ bool all(bool yes) {
    int found;
    asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; bar.red.and.pred q, %2, %3, p; selp.s32 %0, 1, 0, q; }"
                 : "=r"(found) : "r"((int)yes), "n"(Id), "n"(Threads) : "memory");
    return found;
  }
};

#if __CUDA_ARCH__ >= 900
// Blocks of a cluster run at the same time, on neighbouring processors, and write into each other's shared memory. That a
// block runs is known to others when it has come here and they have passed tfs_cluster_started.
__device__ __forceinline__ void tfs_cluster_start() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void tfs_cluster_started() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
// Every thread of every block of the cluster waits here. What they sent to this block before is visible after.
__device__ __forceinline__ void tfs_cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The same place in the shared memory of block number `block` of the cluster.
template <class T> __device__ __forceinline__ T* tfs_in_block(T* own, unsigned int block) {
  T* there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(own), "r"(block));
  return there;
}
#else  // no clusters; templates name these all the same
__device__ __forceinline__ void tfs_cluster_started() {}
__device__ __forceinline__ void tfs_cluster_barrier() {}
#endif

#if __CUDA_ARCH__ >= 800
// Begins a copy of 16 bytes into memory of the block.
__device__ __forceinline__ void tfs_begin_async_copy(void* to, const void* from) {
  const unsigned int address = (unsigned int)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(address), "l"(from) : "memory");
}
// What was begun since the last call of this is one group.
__device__ __forceinline__ void tfs_commit_async_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// All groups of this thread but the last Pending are there.
template <int Pending> __device__ __forceinline__ void tfs_await_async_copies() {
  asm volatile("cp.async.wait_group %0;" :: "n"(Pending) : "memory");
}
#endif
#endif  // TFS_WITHOUT_PTX

#define TFS_INF __int_as_float(0x7f800000)
#define TFS_NAN __int_as_float(0x7fffffff)

// NaN in either operand gives NaN, as TensorFlow's Maximum and Max do.
template <class T> __device__ __forceinline__ T tfs_max(T a, T b) { return a > b || a != a ? a : b; }
template <class T> __device__ __forceinline__ T tfs_min(T a, T b) { return a < b || a != a ? a : b; }
// The same for reductions, where nobody can tell which of two zeros was first: one instruction.
template <class T> __device__ __forceinline__ T tfs_max_of(T a, T b) { return tfs_max(a, b); }
template <class T> __device__ __forceinline__ T tfs_min_of(T a, T b) { return tfs_min(a, b); }
#if __CUDA_ARCH__ >= 800 && !defined(TFS_WITHOUT_PTX)
__device__ __forceinline__ float tfs_max_of(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
__device__ __forceinline__ float tfs_min_of(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
#endif

// ptxas 12.9 and 13.0 give a wrong maximum or minimum of three 32-bit integers that are negated in the same expression
// (sm_90: max(max(a, -b), -c)). So 32-bit integers are compared as biased unsigned numbers, and negated in two steps.
__device__ __forceinline__ int32_t tfs_max(int32_t a, int32_t b) {
  const uint32_t x = (uint32_t)a ^ 0x80000000u, y = (uint32_t)b ^ 0x80000000u;
  return (int32_t)((x > y ? x : y) ^ 0x80000000u);
}
__device__ __forceinline__ int32_t tfs_min(int32_t a, int32_t b) {
  const uint32_t x = (uint32_t)a ^ 0x80000000u, y = (uint32_t)b ^ 0x80000000u;
  return (int32_t)((x < y ? x : y) ^ 0x80000000u);
}
__device__ __forceinline__ int64_t tfs_ineg(int64_t x) { return (int64_t)(0 - (uint64_t)x); }

// Integers wrap around, as TensorFlow's do: they are added and multiplied as unsigned numbers. Of signed ones a compiler
// takes it that they do not overflow, and x + 1 > x is true.
#define TFS_WRAPPING(name, sign) \
  template <class T> __device__ __forceinline__ T name(T a, T b) { return a sign b; } \
  __device__ __forceinline__ int32_t name(int32_t a, int32_t b) { return (int32_t)((uint32_t)a sign (uint32_t)b); } \
  __device__ __forceinline__ int64_t name(int64_t a, int64_t b) { return (int64_t)((uint64_t)a sign (uint64_t)b); }
TFS_WRAPPING(tfs_add, +) TFS_WRAPPING(tfs_sub, -) TFS_WRAPPING(tfs_mul, *)

#define TFS_UNARY(name) \
  __device__ __forceinline__ float tfs_##name##f(float x) { return name##f(x); } \
  __device__ __forceinline__ double tfs_##name(double x) { return name(x); }
TFS_UNARY(exp) TFS_UNARY(expm1) TFS_UNARY(log) TFS_UNARY(log1p) TFS_UNARY(tanh) TFS_UNARY(erf) TFS_UNARY(erfc) TFS_UNARY(rsqrt)
// Functions for results that are rounded to halves: relative errors below 2^-16, a sixteenth of float16's spacing. What
// is below 2^-126 may be 0, so nothing is scaled to have it.
#ifdef TFS_WITHOUT_PTX
__device__ __forceinline__ float tfs_exp2_half(float x) { return exp2f(x); }
__device__ __forceinline__ float tfs_reciprocal_half(float x) { return 1.0f / x; }
#else
__device__ __forceinline__ float tfs_exp2_half(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float tfs_reciprocal_half(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#endif
__device__ __forceinline__ float tfs_exp_half(float x) { return tfs_exp2_half(1.44269504f * x); }
__device__ __forceinline__ float tfs_sigmoid_half(float x) { return tfs_reciprocal_half(1.0f + tfs_exp_half(-x)); }
// exp(-x*x) * P(t), t = 1 / (1 + 0.44 |x|); P is our fit of erfcx on [0, 12], relative error 5.2e-6. Far out exp is 0.
__device__ __forceinline__ float tfs_erfc_half(float x) {
  const float z = fabsf(x), t = tfs_reciprocal_half(__fmaf_rn(0.44f, z, 1.0f));
  float p = -0.146104723f;
  p = __fmaf_rn(p, t, 0.35065016f);
  p = __fmaf_rn(p, t, 0.0407333068f);
  p = __fmaf_rn(p, t, 0.263585317f);
  p = __fmaf_rn(p, t, 0.242569789f);
  p = __fmaf_rn(p, t, 0.248560995f);
  const float tail = tfs_exp_half(-z * z) * (p * t);
  return x < 0.0f ? 2.0f - tail : tail;
}
__device__ __forceinline__ float tfs_sigmoidf(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ double tfs_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
__device__ __forceinline__ float tfs_signf(float x) { return x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : fabsf(x)); }
__device__ __forceinline__ double tfs_sign(double x) { return x > 0.0 ? 1.0 : (x < 0.0 ? -1.0 : fabs(x)); }
__device__ __forceinline__ float tfs_floor_modf(float x, float y) {
  float r = fmodf(x, y);
  return r != 0.0f && (x < 0.0f) != (y < 0.0f) ? r + y : r;
}
__device__ __forceinline__ double tfs_floor_mod(double x, double y) {
  double r = fmod(x, y);
  return r != 0.0 && (x < 0.0) != (y < 0.0) ? r + y : r;
}
// Floats to integers, towards zero: what does not fit gives the nearest integer that there is, NaN gives 0 for a float32 to
// an int32 and the smallest integer otherwise (cvt.rzi, which TensorFlow's kernel is). A cast in C++ leaves it open, and
// compilers that see a NaN come make anything of it.
__device__ __forceinline__ int32_t tfs_i32_of_f32(float x) { return __float2int_rz(x); }
__device__ __forceinline__ int64_t tfs_i64_of_f32(float x) { return __float2ll_rz(x); }
__device__ __forceinline__ int32_t tfs_i32_of_f64(double x) { return __double2int_rz(x); }
__device__ __forceinline__ int64_t tfs_i64_of_f64(double x) { return __double2ll_rz(x); }
__device__ __forceinline__ int32_t tfs_bits(float x) { return __float_as_int(x); }
template <class T> __device__ __forceinline__ T tfs_abs(T x) { return x < 0 ? tfs_ineg(x) : x; }
template <class T> __device__ __forceinline__ T tfs_isign(T x) { return (x > 0) - (x < 0); }
template <class T> __device__ __forceinline__ T tfs_idiv(T x, T y) { return x / y; }
template <class T> __device__ __forceinline__ T tfs_imod(T x, T y) { return x % y; }
template <class T> __device__ __forceinline__ T tfs_ifloor_div(T x, T y) {
  return x / y - (x % y != 0 && (x < 0) != (y < 0));
}
template <class T> __device__ __forceinline__ T tfs_ifloor_mod(T x, T y) {
  return x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0);
}

__device__ __forceinline__ float tfs_from_bfloat16(uint16_t h) { return __uint_as_float((uint32_t)h << 16); }
// Two numbers as halves, the first in the low bits: one instruction, where one bfloat16 takes seven of arithmetic.
#if __CUDA_ARCH__ >= 800 && !defined(TFS_WITHOUT_PTX)
__device__ __forceinline__ uint32_t tfs_to_half_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ __forceinline__ uint32_t tfs_to_bfloat16_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ __forceinline__ uint16_t tfs_to_bfloat16(float f) { return (uint16_t)tfs_to_bfloat16_pair(f, 0.0f); }
#else
__device__ __forceinline__ uint16_t tfs_to_bfloat16(float f) {
  uint32_t bits = __float_as_uint(f);
  return f != f ? 0x7fc0 : (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
__device__ __forceinline__ uint32_t tfs_to_half_pair(float low, float high) {
  return tfs_to_half(low) | (uint32_t)tfs_to_half(high) << 16;
}
__device__ __forceinline__ uint32_t tfs_to_bfloat16_pair(float low, float high) {
  return tfs_to_bfloat16(low) | (uint32_t)tfs_to_bfloat16(high) << 16;
}
#endif

template <class... T>
__device__ __forceinline__ void tfs_read_late(T*&... pointers) {
  (tfs_read_late(pointers), ...);
}
template <class T> __device__ __forceinline__ T* tfs_late(T* pointer) {
  tfs_read_late(pointer);
  return pointer;
}

template <class T, int N> __device__ __forceinline__ void tfs_is_here(const T (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) tfs_is_here(x[i]);
}
template <class... T> __device__ __forceinline__ void tfs_load_fence(const T&... x) { (tfs_is_here(x), ...); }

// A vector access: N elements of storage type T at a multiple of their size.
template <class T, int N> struct __align__(sizeof(T) * N) tfs_vector { T v[N]; };
// Sets element i, which is even, and the next one.
template <int N> __device__ __forceinline__ void tfs_set_pair(tfs_vector<uint16_t, N>& to, int i, uint32_t pair) {
  memcpy(to.v + i, &pair, sizeof pair);
}
template <int N> __device__ __forceinline__ void tfs_set_pair(tfs_vector<uint8_t, N>& to, int i, uint32_t pair) {
  const uint16_t both = (uint16_t)pair;
  memcpy(to.v + i, &both, sizeof both);
}

struct tfs_sum { template <class T> static __device__ __forceinline__ T of(T a, T b) { return tfs_add(a, b); } };
struct tfs_prod { template <class T> static __device__ __forceinline__ T of(T a, T b) { return tfs_mul(a, b); } };
struct tfs_maximum { template <class T> static __device__ __forceinline__ T of(T a, T b) { return tfs_max_of(a, b); } };
struct tfs_minimum { template <class T> static __device__ __forceinline__ T of(T a, T b) { return tfs_min_of(a, b); } };
struct tfs_any { template <class T> static __device__ __forceinline__ T of(T a, T b) { return a | b; } };
struct tfs_all { template <class T> static __device__ __forceinline__ T of(T a, T b) { return a & b; } };

#define TFS_MOST_WARPS (1024 / TFS_WARP)  // of a block

// Where all threads of a block wait for each other. Threads that wait elsewhere have memory of their own below, since
// it is a parameter of the template.
struct tfs_all_threads {
  static __device__ __forceinline__ void wait() { __syncthreads(); }
  // And whether all say yes.
  static __device__ __forceinline__ bool all(bool yes) { return __syncthreads_and(yes); }
};

// Combines each value over Width neighbouring threads (a power of two); a block, or thread range, is one or several such
// groups. `thread`: its number there.
// Shuffles within warps first; the partial results of the warps of a group meet in shared memory. `turn` alternates
// between two sets of slots, so that one barrier a call is enough: a slot is written again only after the barrier of
// the call between, which its readers have reached.
template <class Barrier, int Width, class... Op, class... T>
__device__ __forceinline__ void tfs_all_reduce(int thread, int& turn, T&... v) {
#pragma unroll
  for (int o = (Width < TFS_WARP ? Width : TFS_WARP) / 2; o; o /= 2) ((v = Op::of(v, tfs_shuffle_xor(v, o))), ...);
  if (Width > TFS_WARP) {
    constexpr int kWarps = Width > TFS_WARP ? Width / TFS_WARP : 1;
    __shared__ double slots[2][sizeof...(T)][TFS_MOST_WARPS];
    const int lane = thread % TFS_WARP, warp = thread / TFS_WARP;
    int i = 0;
    if (lane == 0) ((*reinterpret_cast<T*>(&slots[turn][i++][warp]) = v), ...);
    Barrier::wait();
    i = 0;
    ((v = *reinterpret_cast<T*>(&slots[turn][i++][warp / kWarps * kWarps + lane % kWarps])), ...);
#pragma unroll
    for (int o = kWarps / 2; o; o /= 2) ((v = Op::of(v, tfs_shuffle_xor(v, o))), ...);
    turn ^= 1;
  }
}

// The same for (best, at) pairs: the smaller index wins among equals, NaN never wins.
template <bool Largest, class T, class I>
__device__ __forceinline__ void tfs_arg_combine(T& best, I& at, T other, I other_at) {
  if ((Largest ? other > best : other < best) || (other == best && other_at < at)) { best = other; at = other_at; }
}
template <class Barrier, bool Largest, int Width, class T, class I>
__device__ __forceinline__ void tfs_arg_all_reduce(int thread, T& best, I& at) {
#pragma unroll
  for (int o = (Width < TFS_WARP ? Width : TFS_WARP) / 2; o; o /= 2) {
    const T b = tfs_shuffle_xor(best, o);
    const I a = tfs_shuffle_xor(at, o);
    tfs_arg_combine<Largest>(best, at, b, a);
  }
  if (Width > TFS_WARP) {
    constexpr int kWarps = Width > TFS_WARP ? Width / TFS_WARP : 1;
    __shared__ T values[TFS_MOST_WARPS];
    __shared__ I indices[TFS_MOST_WARPS];
    const int lane = thread % TFS_WARP, warp = thread / TFS_WARP, first = warp / kWarps * kWarps;
    if (lane == 0) { values[warp] = best; indices[warp] = at; }
    Barrier::wait();
    best = values[first]; at = indices[first];
    for (int w = 1; w < kWarps; ++w) tfs_arg_combine<Largest>(best, at, values[first + w], indices[first + w]);
    Barrier::wait();
  }
}

// Every thread of `blocks` blocks waits here, of which one is the first; all have to be resident. What was written before is visible after.
// The low bits of the counter are the blocks that have arrived; the last one of them brings these back to zero and flips
// the top bit, whatever it was. So the counter is never cleared: zero once, it serves every barrier of every launch
// that follows another on it.
__device__ __forceinline__ void tfs_grid_barrier(unsigned int* counter, unsigned int blocks, bool first) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned int before = tfs_arrive(counter, first ? 0x80000000u - (blocks - 1) : 1u);
    while (!((before ^ tfs_arrived(counter)) & 0x80000000u)) tfs_sleep();
  }
  __syncthreads();
}

#if __CUDA_ARCH__ >= 900
// *to = value, in the memory of block number `block` of the cluster.
template <class T, class V> __device__ __forceinline__ void tfs_send(T* to, unsigned int block, V value) {
  *tfs_in_block(to, block) = (T)value;
}
#endif

#if __CUDA_ARCH__ >= 800
// Begins a copy of 16 bytes into memory of the block, if wanted; it counts as a copy in any case.
__device__ __forceinline__ void tfs_async_copy(void* to, const void* from, bool wanted) {
  if (wanted) tfs_begin_async_copy(to, from);
  tfs_commit_async_copies();
}
#endif
