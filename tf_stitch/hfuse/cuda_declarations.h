// What CUDA C++ declares in device code, for the parser alone: source.py puts it before a user's source. None of it is in
// what is emitted.
#pragma once
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))
__device__ void __syncthreads();  // clang knows it, as a function of the device alone
#pragma clang force_cuda_host_device begin
#pragma clang diagnostic ignored "-Weverything"

typedef decltype(sizeof 0) size_t;
typedef decltype((char*)0 - (char*)0) ptrdiff_t;
typedef __SIZE_TYPE__ uintptr_t;
typedef __PTRDIFF_TYPE__ intptr_t;
typedef struct CUstream_st* cudaStream_t;

#define TFS_VECTORS(T, Of)                                                                     \
  struct T##1 { Of x; };                                                                       \
  struct T##2 { Of x, y; };                                                                    \
  struct T##3 { Of x, y, z; };                                                                 \
  struct __attribute__((aligned(sizeof(Of) > 4 ? 16 : 4 * sizeof(Of)))) T##4 { Of x, y, z, w; }; \
  T##1 make_##T##1(Of);                                                                        \
  T##2 make_##T##2(Of, Of);                                                                    \
  T##3 make_##T##3(Of, Of, Of);                                                                \
  T##4 make_##T##4(Of, Of, Of, Of);
TFS_VECTORS(char, signed char)
TFS_VECTORS(uchar, unsigned char)
TFS_VECTORS(short, short)
TFS_VECTORS(ushort, unsigned short)
TFS_VECTORS(int, int)
TFS_VECTORS(uint, unsigned int)
TFS_VECTORS(long, long)
TFS_VECTORS(ulong, unsigned long)
TFS_VECTORS(longlong, long long)
TFS_VECTORS(ulonglong, unsigned long long)
TFS_VECTORS(float, float)
TFS_VECTORS(double, double)
struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return uint3{x, y, z}; }
};
extern __device__ const uint3 threadIdx, blockIdx;
extern __device__ const dim3 blockDim, gridDim;
extern __device__ const int warpSize;

// Barriers and fences.
int __syncthreads_count(int);
int __syncthreads_and(int);
int __syncthreads_or(int);
void __syncwarp(unsigned int = 0xffffffff);
void __threadfence();
void __threadfence_block();
void __threadfence_system();
void __nanosleep(unsigned int);
void __trap();
void __brkpt();
void __assert_fail(const char*, const char*, unsigned int, const char*);
void assert(bool);
void __cluster_barrier_arrive();
void __cluster_barrier_wait();
void cudaGridDependencySynchronize();
void cudaTriggerProgrammaticLaunchCompletion();
int printf(const char*, ...);
long long clock64();
int clock();
void* malloc(size_t);
void free(void*);
void* memcpy(void*, const void*, size_t);
void* memset(void*, int, size_t);

// Warps.
template <class T> T __shfl_sync(unsigned int, T, int, int = 32);
template <class T> T __shfl_up_sync(unsigned int, T, unsigned int, int = 32);
template <class T> T __shfl_down_sync(unsigned int, T, unsigned int, int = 32);
template <class T> T __shfl_xor_sync(unsigned int, T, int, int = 32);
int __all_sync(unsigned int, int);
int __any_sync(unsigned int, int);
unsigned int __ballot_sync(unsigned int, int);
template <class T> unsigned int __match_any_sync(unsigned int, T);
template <class T> unsigned int __match_all_sync(unsigned int, T, int*);
template <class T> T __reduce_add_sync(unsigned int, T);
template <class T> T __reduce_min_sync(unsigned int, T);
template <class T> T __reduce_max_sync(unsigned int, T);
template <class T> T __reduce_and_sync(unsigned int, T);
template <class T> T __reduce_or_sync(unsigned int, T);
template <class T> T __reduce_xor_sync(unsigned int, T);
unsigned int __activemask();
unsigned int __lanemask_lt();

// Memory.
template <class T> T __ldg(const T*);
template <class T> T __ldcg(const T*);
template <class T> T __ldca(const T*);
template <class T> T __ldcs(const T*);
template <class T> T __ldlu(const T*);
template <class T> T __ldcv(const T*);
template <class T> void __stwb(T*, T);
template <class T> void __stcg(T*, T);
template <class T> void __stcs(T*, T);
template <class T> void __stwt(T*, T);
template <class T> struct tfs_same { typedef T type; };
#define TFS_ATOMIC(name)                                                   \
  template <class T> T name(T*, typename tfs_same<T>::type);               \
  template <class T> T name##_block(T*, typename tfs_same<T>::type);       \
  template <class T> T name##_system(T*, typename tfs_same<T>::type);
TFS_ATOMIC(atomicAdd)
TFS_ATOMIC(atomicSub)
TFS_ATOMIC(atomicExch)
TFS_ATOMIC(atomicMin)
TFS_ATOMIC(atomicMax)
TFS_ATOMIC(atomicInc)
TFS_ATOMIC(atomicDec)
TFS_ATOMIC(atomicAnd)
TFS_ATOMIC(atomicOr)
TFS_ATOMIC(atomicXor)
template <class T> T atomicCAS(T*, typename tfs_same<T>::type, typename tfs_same<T>::type);
template <class T> T atomicCAS_block(T*, typename tfs_same<T>::type, typename tfs_same<T>::type);
template <class T> T atomicCAS_system(T*, typename tfs_same<T>::type, typename tfs_same<T>::type);
unsigned int __cvta_generic_to_shared(const void*);

// Arithmetic.
#define TFS_UNARY(name) float name##f(float); double name(double); float name(float);
#define TFS_BINARY(name) float name##f(float, float); double name(double, double); float name(float, float);
TFS_UNARY(sin) TFS_UNARY(cos) TFS_UNARY(tan) TFS_UNARY(asin) TFS_UNARY(acos) TFS_UNARY(atan) TFS_UNARY(sinh)
TFS_UNARY(cosh) TFS_UNARY(tanh) TFS_UNARY(asinh) TFS_UNARY(acosh) TFS_UNARY(atanh) TFS_UNARY(exp) TFS_UNARY(exp2)
TFS_UNARY(exp10) TFS_UNARY(expm1) TFS_UNARY(log) TFS_UNARY(log2) TFS_UNARY(log10) TFS_UNARY(log1p) TFS_UNARY(sqrt)
TFS_UNARY(rsqrt) TFS_UNARY(cbrt) TFS_UNARY(rcbrt) TFS_UNARY(erf) TFS_UNARY(erfc) TFS_UNARY(erfinv) TFS_UNARY(erfcx)
TFS_UNARY(tgamma) TFS_UNARY(lgamma) TFS_UNARY(floor) TFS_UNARY(ceil) TFS_UNARY(trunc) TFS_UNARY(round)
TFS_UNARY(rint) TFS_UNARY(nearbyint) TFS_UNARY(fabs) TFS_UNARY(normcdf) TFS_UNARY(sinpi) TFS_UNARY(cospi)
TFS_BINARY(pow) TFS_BINARY(fmod) TFS_BINARY(fmin) TFS_BINARY(fmax) TFS_BINARY(atan2) TFS_BINARY(hypot)
TFS_BINARY(copysign) TFS_BINARY(remainder) TFS_BINARY(fdim) TFS_BINARY(nextafter)
float fmaf(float, float, float);
double fma(double, double, double);
float fma(float, float, float);
float ldexpf(float, int);
double ldexp(double, int);
float frexpf(float, int*);
float modff(float, float*);
float powif(float, int);
void sincosf(float, float*, float*);
void sincos(double, double*, double*);
bool isnan(double);
bool isinf(double);
bool isfinite(double);
bool signbit(double);
int abs(int);
long long abs(long long);
float abs(float);
double abs(double);
long long llabs(long long);
#define TFS_LEAST(T) T min(T, T); T max(T, T);
TFS_LEAST(int) TFS_LEAST(unsigned int) TFS_LEAST(long) TFS_LEAST(unsigned long) TFS_LEAST(long long)
TFS_LEAST(unsigned long long) TFS_LEAST(float) TFS_LEAST(double)
#define TFS_MIXED(Of, A, B) Of min(A, B); Of min(B, A); Of max(A, B); Of max(B, A);
TFS_MIXED(unsigned int, int, unsigned int) TFS_MIXED(unsigned long, long, unsigned long)
TFS_MIXED(unsigned long long, long long, unsigned long long) TFS_MIXED(double, float, double)
float pow(float, int);
double pow(double, int);
float __sinf(float);
float __cosf(float);
float __tanf(float);
float __expf(float);
float __exp10f(float);
float __logf(float);
float __log2f(float);
float __log10f(float);
float __powf(float, float);
float __fdividef(float, float);
float __saturatef(float);
float __frsqrt_rn(float);
void __sincosf(float, float*, float*);
#define TFS_ROUNDED(round)                                                                                              \
  float __fadd_##round(float, float); float __fsub_##round(float, float); float __fmul_##round(float, float);           \
  float __fdiv_##round(float, float); float __fmaf_##round(float, float, float); float __fsqrt_##round(float);          \
  float __frcp_##round(float); double __dadd_##round(double, double); double __dsub_##round(double, double);            \
  double __dmul_##round(double, double); double __ddiv_##round(double, double);                                         \
  double __fma_##round(double, double, double); double __dsqrt_##round(double); double __drcp_##round(double);          \
  int __float2int_##round(float); unsigned int __float2uint_##round(float); long long __float2ll_##round(float);        \
  unsigned long long __float2ull_##round(float); int __double2int_##round(double);                                      \
  unsigned int __double2uint_##round(double); long long __double2ll_##round(double);                                    \
  unsigned long long __double2ull_##round(double); float __int2float_##round(int); float __uint2float_##round(unsigned int); \
  float __ll2float_##round(long long); float __ull2float_##round(unsigned long long); float __double2float_##round(double); \
  double __ll2double_##round(long long); double __ull2double_##round(unsigned long long);
TFS_ROUNDED(rn) TFS_ROUNDED(rz) TFS_ROUNDED(ru) TFS_ROUNDED(rd)
double __int2double_rn(int);
double __uint2double_rn(unsigned int);
int __float_as_int(float);
unsigned int __float_as_uint(float);
float __int_as_float(int);
float __uint_as_float(unsigned int);
long long __double_as_longlong(double);
double __longlong_as_double(long long);
int __double2hiint(double);
int __double2loint(double);
double __hiloint2double(int, int);
int __popc(unsigned int);
int __popcll(unsigned long long);
int __clz(int);
int __clzll(long long);
int __ffs(int);
int __ffsll(long long);
unsigned int __brev(unsigned int);
unsigned long long __brevll(unsigned long long);
unsigned int __byte_perm(unsigned int, unsigned int, unsigned int);
unsigned int __funnelshift_l(unsigned int, unsigned int, unsigned int);
unsigned int __funnelshift_r(unsigned int, unsigned int, unsigned int);
unsigned int __funnelshift_lc(unsigned int, unsigned int, unsigned int);
unsigned int __funnelshift_rc(unsigned int, unsigned int, unsigned int);
int __mulhi(int, int);
unsigned int __umulhi(unsigned int, unsigned int);
long long __mul64hi(long long, long long);
unsigned long long __umul64hi(unsigned long long, unsigned long long);
int __mul24(int, int);
unsigned int __umul24(unsigned int, unsigned int);
unsigned int __sad(int, int, unsigned int);
unsigned int __usad(unsigned int, unsigned int, unsigned int);
int __dp4a(int, int, int);
unsigned int __dp4a(unsigned int, unsigned int, unsigned int);
int __vadd4(unsigned int, unsigned int);

// Declared so that they can be refused by name.
namespace cooperative_groups {
struct tfs_group {
  void sync() const;
  unsigned int thread_rank() const;
  unsigned int size() const;
  bool is_valid() const;
  template <class T> T shfl(T, int) const;
  template <class T> T shfl_xor(T, int) const;
  template <class T> T shfl_down(T, int) const;
};
typedef tfs_group grid_group, thread_block, cluster_group, thread_group, coalesced_group;
template <unsigned int Size, class Of = void> struct thread_block_tile : tfs_group {};
grid_group this_grid();
thread_block this_thread_block();
cluster_group this_cluster();
coalesced_group coalesced_threads();
template <unsigned int Size, class Group> thread_block_tile<Size, Group> tiled_partition(const Group&);
template <class Group> void sync(const Group&);
}  // namespace cooperative_groups
