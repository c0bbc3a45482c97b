// Behind cuda_prelude.cu, in sources that have a use for it.
// An element of memory that threads of all blocks add to, each of them as a whole and in any order. What it was is not
// asked for, so that the cache does it and no thread waits.
__device__ __forceinline__ void tfs_atomic_sum(float* at, float x) { atomicAdd(at, x); }
__device__ __forceinline__ void tfs_atomic_sum(double* at, double x) { atomicAdd(at, x); }
__device__ __forceinline__ void tfs_atomic_sum(int32_t* at, int32_t x) { atomicAdd(at, x); }
__device__ __forceinline__ void tfs_atomic_sum(int64_t* at, int64_t x) { atomicAdd((uint64_t*)at, (uint64_t)x); }
__device__ __forceinline__ void tfs_atomic_max(int32_t* at, int32_t x) { atomicMax(at, x); }
__device__ __forceinline__ void tfs_atomic_min(int32_t* at, int32_t x) { atomicMin(at, x); }
__device__ __forceinline__ void tfs_atomic_max(int64_t* at, int64_t x) { atomicMax(at, x); }
__device__ __forceinline__ void tfs_atomic_min(int64_t* at, int64_t x) { atomicMin(at, x); }
// The others: read, combine, and again if somebody else was there in between. NaN stays.
__device__ __forceinline__ uint32_t tfs_word(float x) { return __float_as_uint(x); }
__device__ __forceinline__ uint32_t tfs_word(int32_t x) { return (uint32_t)x; }
__device__ __forceinline__ uint64_t tfs_word(double x) { return (uint64_t)__double_as_longlong(x); }
__device__ __forceinline__ uint64_t tfs_word(int64_t x) { return (uint64_t)x; }
__device__ __forceinline__ void tfs_of_word(uint32_t word, float& x) { x = __uint_as_float(word); }
__device__ __forceinline__ void tfs_of_word(uint32_t word, int32_t& x) { x = (int32_t)word; }
__device__ __forceinline__ void tfs_of_word(uint64_t word, double& x) { x = __longlong_as_double((int64_t)word); }
__device__ __forceinline__ void tfs_of_word(uint64_t word, int64_t& x) { x = (int64_t)word; }
template <class Word, class F> __device__ __forceinline__ void tfs_replace(Word* at, F wanted_for) {
  Word seen = *(volatile Word*)at;
  while (true) {
    const Word wanted = wanted_for(seen);
    if (wanted == seen) return;
    const Word found = atomicCAS(at, seen, wanted);
    if (found == seen) return;
    seen = found;
  }
}
template <class Op, class T> __device__ __forceinline__ void tfs_atomic(T* at, T x) {
  using Word = decltype(tfs_word(x));
  tfs_replace((Word*)at, [x](Word seen) {
    T element;
    tfs_of_word(seen, element);
    return tfs_word(Op::of(element, x));
  });
}
template <class T> __device__ __forceinline__ void tfs_atomic_max(T* at, T x) { tfs_atomic<tfs_maximum>(at, x); }
template <class T> __device__ __forceinline__ void tfs_atomic_min(T* at, T x) { tfs_atomic<tfs_minimum>(at, x); }
template <class T> __device__ __forceinline__ void tfs_atomic_prod(T* at, T x) { tfs_atomic<tfs_prod>(at, x); }
// Halves are rounded every time, as TensorFlow's are.
template <class Op> __device__ __forceinline__ void tfs_atomic_half(uint16_t* at, float x) {
  tfs_replace(at, [x](uint16_t seen) { return tfs_to_half(Op::of(tfs_from_half(seen), x)); });
}
template <class Op> __device__ __forceinline__ void tfs_atomic_bfloat16(uint16_t* at, float x) {
  tfs_replace(at, [x](uint16_t seen) { return tfs_to_bfloat16(Op::of(tfs_from_bfloat16(seen), x)); });
}
