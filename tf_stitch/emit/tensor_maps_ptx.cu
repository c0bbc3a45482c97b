// What matmul_clusters.cu needs of a Hopper GPU beside wgmma (PTX ISA, sm_90a): copies of boxes of tensors to shared
// memory of several blocks, barriers that count their bytes, and the descriptions of tensors, which a kernel writes itself.
// TFS_WITHOUT_PTX: see cuda_prelude.cu.
#ifndef TFS_WITHOUT_PTX

// A barrier in shared memory. A phase ends when all have arrived and all bytes are there.
struct tfs_phase_barrier {
  uint64_t state;
  __device__ __forceinline__ uint32_t address() const { return tfs_shared_address(this); }
  __device__ __forceinline__ void init(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(address()), "r"(arrivals) : "memory");
  }
  // Arrives, with so many bytes to come.
  __device__ __forceinline__ void expect(int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(address()), "r"(bytes) : "memory");
  }
  // Arrives at the same barrier of another block of the cluster.
  __device__ __forceinline__ void arrive(int block) {
    asm volatile("{ .reg .b32 its; mapa.shared::cluster.u32 its, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [its]; }"
                 :: "r"(address()), "r"(block) : "memory");
  }
  __device__ __forceinline__ void wait(int phase) {
    asm volatile(
        "{ .reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again; }"
        :: "r"(address()), "r"(phase & 1) : "memory");
  }
};
// Barriers that were initialised are there for other blocks and for copies, after the next barrier of the cluster.
__device__ __forceinline__ void tfs_phase_barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

struct __align__(128) tfs_tensor_map { uint32_t words[32]; };

#define TFS_SET(FIELD, BITS, CONSTRAINT, VALUE) \
  asm volatile("tensormap.replace.tile." FIELD ".shared::cta.b1024." BITS " [%0], %1;" :: "l"(its), CONSTRAINT(VALUE) : "memory")
#define TFS_SET_OF(FIELD, BITS, CONSTRAINT, AXIS, VALUE)                                                            \
  asm volatile("tensormap.replace.tile." FIELD ".shared::cta.b1024." BITS " [%0], %1, %2;" :: "l"(its), "n"(AXIS), \
               CONSTRAINT(VALUE) : "memory")
// A warp describes a tensor of half types of `matrices` times `lines` times `length` elements, the last in a row, and boxes
// of `box_lines` lines of 64 elements, which lie in shared memory as Exchanged in matmul_warpgroups.cu says. Elements from
// one line and matrix to the next. What is outside is zeros.
__device__ __forceinline__ void tfs_describe_tensor(int lane, tfs_tensor_map* to, tfs_tensor_map* shared, const void* start,
                                                    bool is_bfloat16, int length, int lines, int matrices,
                                                    long long line_step, long long matrix_step, int box_lines) {
  shared->words[lane] = 0;
  __syncwarp();
  if (lane == 0) {
    const uint64_t its = tfs_shared_address(shared);
    TFS_SET("global_address", "b64", "l", start);
    TFS_SET("rank", "b32", "n", 2);
    TFS_SET_OF("box_dim", "b32", "r", 0, 64);
    TFS_SET_OF("box_dim", "b32", "r", 1, box_lines);
    TFS_SET_OF("box_dim", "b32", "r", 2, 1);
    TFS_SET_OF("global_dim", "b32", "r", 0, length);
    TFS_SET_OF("global_dim", "b32", "r", 1, lines);
    TFS_SET_OF("global_dim", "b32", "r", 2, matrices);
    TFS_SET_OF("global_stride", "b64", "l", 0, 2 * line_step);
    TFS_SET_OF("global_stride", "b64", "l", 1, 2 * matrix_step);
    TFS_SET_OF("element_stride", "b32", "r", 0, 1);
    TFS_SET_OF("element_stride", "b32", "r", 1, 1);
    TFS_SET_OF("element_stride", "b32", "r", 2, 1);
    if (is_bfloat16) TFS_SET("elemtype", "b32", "n", 10);
    else TFS_SET("elemtype", "b32", "n", 6);
    TFS_SET("interleave_layout", "b32", "n", 0);
    TFS_SET("swizzle_mode", "b32", "n", 3);
    TFS_SET("fill_mode", "b32", "n", 0);
  }
  __syncwarp();
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
               :: "l"(to), "l"((uint64_t)tfs_shared_address(shared)) : "memory");
}
// Before a thread copies boxes of it, of whose description it knows by a barrier.
__device__ __forceinline__ void tfs_await_tensor(const tfs_tensor_map* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
}
#undef TFS_SET
#undef TFS_SET_OF

// A box to the same place in shared memory of each block of the cluster whose bit is set; each one's barrier gets its bytes.
template <int Blocks>
__device__ __forceinline__ void tfs_copy_box(uint32_t* to, const tfs_tensor_map* map, int element, int line, int matrix,
                                             tfs_phase_barrier* barrier) {
  if constexpr (Blocks == 0)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                 :: "r"(tfs_shared_address(to)), "l"(map), "r"(element), "r"(line), "r"(matrix), "r"(barrier->address()) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%2, %3, %4}], [%5], %6;"
                 :: "r"(tfs_shared_address(to)), "l"(map), "r"(element), "r"(line), "r"(matrix), "r"(barrier->address()),
                    "h"((uint16_t)Blocks) : "memory");
}
#endif  // TFS_WITHOUT_PTX
