// What a CUDA thread that runs as a fibre asks of its scheduler (fibres.cc). All pointers into shared memory are those of
// the thread's own block.
#pragma once
#include <stdint.h>

extern "C" {
struct tfs_place { unsigned int x; };
extern tfs_place threadIdx, blockIdx, blockDim, gridDim;

constexpr int TFS_LANE_BYTES = 32;
// The bytes that every lane of the warp gives, by lane; valid until the call after the next.
const unsigned char (*tfs_exchange(const void* own, int size))[TFS_LANE_BYTES];
// Every thread of the block waits here.
void tfs_block_barrier(void);
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
