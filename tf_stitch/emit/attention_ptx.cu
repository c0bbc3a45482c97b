// What attention.cu needs of a warp's tensor cores and of asynchronous copies: one instruction each.
// An element type says how many of its values a 32-bit word of an operand holds and how words of an operand are made.
// TFS_WITHOUT_PTX: see cuda_prelude.cu.
#ifndef TFS_WITHOUT_PTX

// c += a b by the instruction of this shape and these types.
#define TFS_MMA(INSTRUCTION)                                                                                          \
  static __device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {       \
    asm("mma.sync.aligned." INSTRUCTION " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                      \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                              \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                              \
  }

struct tfs_tf32 {
  using Storage = float;
  static constexpr int PER_WORD = 1;
  static __device__ __forceinline__ float value(uint32_t word, int) { return __uint_as_float(word); }
  static __device__ __forceinline__ uint32_t operand(uint32_t word) {
    uint32_t rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(word)));
    return rounded;
  }
  TFS_MMA("m16n8k8.row.col.f32.tf32.tf32.f32")
};

struct tfs_half {
  using Storage = uint16_t;
  static constexpr int PER_WORD = 2;
  static __device__ __forceinline__ uint32_t operand(uint32_t word) { return word; }
};
struct tfs_f16 : tfs_half {
  static constexpr bool IS_BFLOAT16 = false;
  static __device__ __forceinline__ float value(uint32_t word, int i) { return tfs_from_half((uint16_t)(word >> 16 * i)); }
  static __device__ __forceinline__ uint32_t pack(float low, float high) { return tfs_to_half_pair(low, high); }
  TFS_MMA("m16n8k16.row.col.f32.f16.f16.f32")
};
struct tfs_bf16 : tfs_half {
  static constexpr bool IS_BFLOAT16 = true;
  static __device__ __forceinline__ float value(uint32_t word, int i) { return __uint_as_float(word >> 16 * i << 16); }
  static __device__ __forceinline__ uint32_t pack(float low, float high) { return tfs_to_bfloat16_pair(low, high); }
  TFS_MMA("m16n8k16.row.col.f32.bf16.bf16.f32")
};

__device__ __forceinline__ uint32_t tfs_shared_address(const void* shared) { return __cvta_generic_to_shared(shared); }
// 16 bytes to shared memory behind the thread's back; zeros unless they are there to be read.
__device__ __forceinline__ void tfs_copy_async(void* shared, const void* global, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"((uint32_t)__cvta_generic_to_shared(shared)), "l"(global), "r"(there ? 16 : 0) : "memory");
}
__device__ __forceinline__ void tfs_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all groups of this thread's copies but the latest N are there.
template <int N> __device__ __forceinline__ void tfs_copy_wait() {
  asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}

// Four matrices of 8 rows of 4 words: lane 4 g + t gets word t of row g. Lane l has the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void tfs_load_matrices(uint32_t (&matrices)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory");
}
// The same as 8 x 8 matrices of 16-bit values, transposed.
__device__ __forceinline__ void tfs_load_transposed(uint32_t (&matrices)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory");
}

__device__ __forceinline__ float tfs_exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#endif  // TFS_WITHOUT_PTX
