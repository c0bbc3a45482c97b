// What the kernels of recurrent.cu are given, and the arithmetic that they share.
#pragma once

#include "device.cuh"

constexpr int WIDTH = 256, BATCH = 32, GATES = 4, LAYERS = 2;
constexpr int THREADS = 384, WARPS = THREADS / 32, TERMS = 64;  // of a warp, of the 768 rows of [U1; W2; U2]
constexpr int AHEAD = 4;                                        // rounds whose inputs are on their way
constexpr int PHASES = 6;  // wait, multiply, the block's barrier, sums, cell, handing on; the last three may be one

// How blocks that share rows of the batch hand each other states.
enum Method {
  GRID,      // device memory, a barrier of all blocks
  GROUP,     // device memory, a counter for each group
  PACKETS,   // device memory, words that each carry the number of their round
  BARRIER,   // shared memory of a cluster, the cluster's barrier
  ASYNC,     // shared memory of a cluster, stores that count themselves at an mbarrier
  LAUNCHES,  // a launch for each round, weights read before it waits for the one before
  WORDS,     // device memory, words that each say of which round they are, straight into fragments
};
enum Arithmetic { FLOAT, TF32, BF16 };

struct Arguments {
  const float* inputs;   // [batch, steps, 4 * width]: x W1 + b1
  const float* weights;  // [3, width, 4 * width]: U1, W2, U2
  const float* bias;     // [4 * width], of layer 2
  float* outputs;        // [batch, steps, width]
  char* exchange;
  unsigned* counters;
  float* cells;  // c of a launch for each round
  int* error;
  unsigned* trace;
  unsigned turn;  // the number of the first round of this launch
  int steps;
  int first, last;  // rounds
};

__device__ inline float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ inline float hyperbolic(float x) { return 2.0f * sigmoid(2.0f * x) - 1.0f; }

__device__ inline uint32_t as_tf32(float x) {
  uint32_t result;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(x));
  return result;
}

__device__ inline uint32_t as_bf16(float low, float high) {
  __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<uint32_t&>(pair);
}

__device__ inline void multiply_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void multiply_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
