// What matmul_warpgroups.cu needs of a warpgroup's tensor cores (PTX ISA, wgmma): one instruction each. For each type and
// number of columns emit/matmul.py writes a tfs_warpgroup_multiply.
// TFS_WITHOUT_PTX: see cuda_prelude.cu.
#ifndef TFS_WITHOUT_PTX

// A matrix in shared memory in lines of 128 bytes with exchanged parts, eight of which lie behind each other: words from
// eight lines to the next eight, and, where lines are of one term, from one part of 64 elements to the next.
struct tfs_shared_matrix {
  uint64_t descriptor;
  // So many words further on.
  __device__ __forceinline__ tfs_shared_matrix operator+(int words) const {
    tfs_shared_matrix other = *this;
    other.descriptor += words / 4;
    return other;
  }
  __device__ __forceinline__ tfs_shared_matrix(const uint32_t* start, int part_words, int eight_words) {
    const auto field = [](uint32_t bytes) { return (uint64_t)(bytes >> 4 & 0x3fff); };
    descriptor = field((uint32_t)__cvta_generic_to_shared(start)) | field(4 * part_words) << 16
                 | field(4 * eight_words) << 32 | (uint64_t)1 << 62;
  }
};
template <class Element, int Columns> struct tfs_warpgroup_multiply;

// What this thread wrote to, or copied to, shared memory is there for tensor cores after the next barrier.
__device__ __forceinline__ void tfs_shared_for_tensor_cores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void tfs_warpgroup_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void tfs_warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until all groups of multiplications but the latest N have ended.
template <int N> __device__ __forceinline__ void tfs_warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}
#endif  // TFS_WITHOUT_PTX
