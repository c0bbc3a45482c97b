// tensor_maps_ptx.cu on a CPU: boxes are copied at once, to all blocks that get them. Part of cuda_on_cpu.h.
#pragma once

// A thread that waits for one goes on when anybody has arrived, or bytes have, at any.
static unsigned int tfs_phase_changes;
struct tfs_phase_barrier {
  uint8_t needed, arrived;
  uint16_t phase;
  int32_t missing;  // bytes
  void init(int arrivals) { *this = {(uint8_t)arrivals, 0, 0, 0}; }
  void change(int arrivals, int bytes) {
    arrived += arrivals, missing += bytes;
    if (arrived > needed) tfs_fail("more arrive at a barrier than it has");
    if (arrived == needed && missing == 0) arrived = 0, ++phase;
    tfs_counter_add(&tfs_phase_changes, 1);
  }
  void expect(int bytes) { change(1, bytes); }
  void arrive(int block) { ((tfs_phase_barrier*)tfs_of_block(this, block))->change(1, 0); }
  void wait(int awaited) {
    while (phase % 2 == awaited % 2) tfs_counter_read(&tfs_phase_changes);
  }
};
static_assert(sizeof(tfs_phase_barrier) == 8);
inline void tfs_phase_barriers_ready() {}

struct alignas(128) tfs_tensor_map {
  const uint16_t* start;
  int length, lines, matrices, box_lines;
  long long line_step, matrix_step;
};
inline void tfs_describe_tensor(int lane, tfs_tensor_map* to, tfs_tensor_map*, const void* start, bool, int length, int lines,
                                int matrices, long long line_step, long long matrix_step, int box_lines) {
  if ((uintptr_t)to % 128) tfs_fail("a description is not aligned");
  if ((uintptr_t)start % 16 || line_step % 8 || matrix_step % 8 || box_lines > 256) tfs_fail("a tensor that no map describes");
  if (lane == 0) *to = {(const uint16_t*)start, length, lines, matrices, box_lines, line_step, matrix_step};
}
inline void tfs_await_tensor(const tfs_tensor_map*) {}

template <int Blocks>
inline void tfs_copy_box(uint32_t* to, const tfs_tensor_map* map, int element, int line, int matrix, tfs_phase_barrier* barrier) {
  if ((uintptr_t)to % 1024) tfs_fail("a box is not aligned");
  const unsigned int rank = blockIdx.x % 2;
  for (unsigned int block = 0; block < 2; ++block) {
    if (!(Blocks == 0 ? block == rank : Blocks >> block & 1)) continue;
    auto* its = (unsigned char*)tfs_of_block(to, block);
    for (int l = 0; l < map->box_lines; ++l)
      for (int e = 0; e < 64; ++e) {
        const bool there = element + e < map->length && line + l < map->lines && matrix < map->matrices;
        const uint16_t value = there ? map->start[matrix * map->matrix_step + (line + l) * map->line_step + element + e] : 0;
        memcpy(its + l * 128 + (e / 8 ^ l % 8) * 16 + e % 8 * 2, &value, sizeof value);
      }
    ((tfs_phase_barrier*)tfs_of_block(barrier, block))->change(0, -128 * map->box_lines);
  }
}
