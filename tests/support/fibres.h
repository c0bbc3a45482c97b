// What a CUDA thread that runs as a fibre asks of its scheduler (fibres.cc). All pointers into shared memory are those of
// the thread's own block.
#pragma once
#include <stdint.h>

extern "C" {
struct uint3 { unsigned int x, y, z; };
extern uint3 threadIdx, blockIdx, blockDim, gridDim;
// The launches that follow have blocks, and a grid, of these dimensions; all zero: of one dimension.
void tfs_shape(unsigned int block_x, unsigned int block_y, unsigned int grid_x, unsigned int grid_y);
// Whether threads that have ended count as arrived at barriers of the whole block, as on a GPU; else they are an error.
void tfs_let_threads_end(bool may);
// Of the thread in its block.
unsigned int tfs_thread_number(void);

constexpr int TFS_LANE_BYTES = 32;
// The bytes that every lane of the warp gives, by lane; valid until the call after the next.
const unsigned char (*tfs_exchange(const void* own, int size))[TFS_LANE_BYTES];
// Every thread of the block waits here.
void tfs_block_barrier(void);
// So many threads of the block wait at one of its numbered barriers; what their values give together.
enum tfs_together { TFS_COUNT, TFS_AND, TFS_OR };
int tfs_partial_barrier(unsigned int number, unsigned int threads, int value, tfs_together how);
// Counters that blocks share. A thread that reads one again before anybody added to any waits until somebody does.
unsigned int tfs_counter_add(unsigned int* counter, unsigned int add);
unsigned int tfs_counter_read(const unsigned int* counter);
void tfs_cluster_arrive(void);
void tfs_cluster_wait(void);
// Where `own` lies in the memory of another block of the cluster, until the thread waits for anything.
void* tfs_of_block(void* own, unsigned int block);
// 16 bytes, or as many zeros unless they are `there`: copied at once or when they are awaited.
void tfs_copy_begin(void* to, const void* from, bool there);
void tfs_copies_commit(void);
void tfs_copies_await(int pending);
// Ends the launch.
void tfs_fail(const char* what);
}
