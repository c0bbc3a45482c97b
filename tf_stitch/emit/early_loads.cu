// Loads of kernels that read before tfs_await_dependencies (kernel_ir/dependencies.py).
#ifndef TFS_WITHOUT_PTX
// Loads where it stands: compilers would move it behind tfs_await_dependencies, since nothing writes there, to where its
// value is needed.
template <int Bytes> struct tfs_early;
template <> struct tfs_early<1> {
  static __device__ __forceinline__ void load(const void* from, void* to) {
    uint32_t x;
    asm volatile("ld.global.u8 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
    *(uint8_t*)to = (uint8_t)x;
  }
};
template <> struct tfs_early<2> {
  static __device__ __forceinline__ void load(const void* from, void* to) {
    uint16_t x;
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(x) : "l"(from) : "memory");
    memcpy(to, &x, 2);
  }
};
template <> struct tfs_early<4> {
  static __device__ __forceinline__ void load(const void* from, void* to) {
    uint32_t x;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
    memcpy(to, &x, 4);
  }
};
template <> struct tfs_early<8> {
  static __device__ __forceinline__ void load(const void* from, void* to) {
    uint32_t x[2];
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(x[0]), "=r"(x[1]) : "l"(from) : "memory");
    memcpy(to, x, 8);
  }
};
template <> struct tfs_early<16> {
  static __device__ __forceinline__ void load(const void* from, void* to) {
    uint32_t x[4];
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "l"(from) : "memory");
    memcpy(to, x, 16);
  }
};
template <> struct tfs_early<32> {
  static __device__ __forceinline__ void load(const void* from, void* to) {
    tfs_early<16>::load(from, to);
    tfs_early<16>::load((const char*)from + 16, (char*)to + 16);
  }
};
template <int N, class T> __device__ __forceinline__ tfs_vector<T, N> tfs_load_early(const T* from) {
  tfs_vector<T, N> loaded;
  tfs_early<sizeof loaded>::load(from, &loaded);
  return loaded;
}
// A hint that the line with this byte is read soon, for the cache that all processors share.
__device__ __forceinline__ void tfs_prefetch(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" : : "l"(from));
}
#else
__device__ __forceinline__ void tfs_prefetch(const void*) {}
template <int N, class T> __device__ __forceinline__ tfs_vector<T, N> tfs_load_early(const T* from) {
  return *(const tfs_vector<T, N>*)from;
}
#endif

// Elements as they lie in memory, in words: a vector of them from element `at` on, and element i.
template <class T, int N> __device__ __forceinline__ void tfs_pack(uint32_t* words, int at, const tfs_vector<T, N>& from) {
  uint32_t packed[sizeof from / 4];
  memcpy(packed, &from, sizeof from);
#pragma unroll
  for (int i = 0; i < (int)(sizeof from / 4); ++i) words[at * (int)sizeof(T) / 4 + i] = packed[i];
}
template <class T> __device__ __forceinline__ T tfs_unpacked(const uint32_t* words, int i) {
  constexpr int in_a_word = 4 / sizeof(T);
  return (T)(words[i / in_a_word] >> i % in_a_word * 8 * (int)sizeof(T));
}
