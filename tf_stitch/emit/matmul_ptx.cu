// What matmul.cu needs beyond attention_ptx.cu. TFS_WITHOUT_PTX: see cuda_prelude.cu.
#ifndef TFS_WITHOUT_PTX
// Four 8 x 8 matrices of 16-bit values as they lie; lane l has the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void tfs_load_matrices(uint32_t (&matrices)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory");
}
#endif  // TFS_WITHOUT_PTX
