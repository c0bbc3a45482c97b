// What the kernel of decoder.cu is given, and how shared memory of a block is laid out.
#pragma once

#include "device.cuh"

constexpr int WIDTH = 768, HEADS = 12, HEAD = 64, LAYERS = 6, VOCABULARY = 50257, CACHE = 96;
constexpr int WARPS = 12, CONSUMERS = WARPS * 32, THREADS = CONSUMERS + 32;
constexpr int MOST_SLOTS = 12, MOST_ROWS = 24;  // columns of a block in one phase, but the last
constexpr int EXTRAS = 2304 + 768 + 3072 + 768 + 4 * 768;  // of a layer: biases, and a scale and an offset of two norms

enum Kind { QKV, ATTENTION, PROJECTION, EXPAND, CONTRACT, LOGITS, KINDS };
constexpr int PHASES = 5 * LAYERS + 1, PARTS = 4;  // parts of a phase that are timed

// How blocks learn that what they read is there.
enum Method {
  LAUNCHES,  // a launch for each phase, whose weights are copied before it waits for the one before
  GRID,      // a barrier of all blocks behind each phase
  COUNTERS,  // a counter for each phase, to which those that compute it add
  PACKETS,   // every value carries the number of its word
};

struct Arguments {
  const void* weights;
  const float* extras;
  void* cache;      // [layer, 2, head, CACHE, HEAD]
  char* vectors;    // what phases give
  char* best;       // of each block: the largest logit and its number
  float* logits;
  float* residual;  // [2, WIDTH], of a launch for each phase
  int* tokens;      // [CACHE]: which word was read at a position
  unsigned* counters;
  int* error;
  unsigned* trace;  // [block, KINDS, PARTS]
  unsigned turn;     // words before this launch
  int position, words, first, last;  // phases
  int bytes;         // of shared memory for weights and the cache
  int early;         // 0: copies wait for the phase that needs them
  int copies;        // of what phases give, of which each block reads one
  int pause;         // nanoseconds until a block asks again for what is not there
};

__host__ __device__ constexpr int columns(int kind) {
  return kind == QKV ? 3 * WIDTH : kind == EXPAND ? 4 * WIDTH : kind == LOGITS ? VOCABULARY : WIDTH;
}
__host__ __device__ constexpr int terms(int kind) { return kind == CONTRACT ? 4 * WIDTH : WIDTH; }
__host__ __device__ constexpr int kind_of(int phase) { return phase == PHASES - 1 ? int(LOGITS) : phase % 5; }

constexpr size_t LAYER_WEIGHTS = size_t(12) * WIDTH * WIDTH;
__host__ __device__ inline size_t weights_at(int phase) {
  const size_t square = size_t(WIDTH) * WIDTH;
  const int kind = kind_of(phase);
  return phase / 5 * LAYER_WEIGHTS + (kind == PROJECTION ? 3 : kind == EXPAND ? 4 : kind == CONTRACT ? 8 : 0) * square;
}

__device__ inline void barrier_init(uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ inline void copy(uint32_t to, const void* from, unsigned bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

__device__ inline void consumers_sync() { asm volatile("bar.sync 1, %0;" ::"n"(CONSUMERS) : "memory"); }

__device__ inline float sum_of_warp(float x) {
#pragma unroll
  for (int step = 16; step; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// Compilers take a load of what is constant to where its value is needed, but not this one.
__device__ inline float4 load_early(const float* from) {
  float4 v;
  asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

// The elements of 16 bytes as floats.
__device__ inline void unpack(const float* from, float (&to)[4]) {
  float4 v = *reinterpret_cast<const float4*>(from);
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
__device__ inline void unpack(const __nv_bfloat16* from, float (&to)[8]) {
  uint4 v = *reinterpret_cast<const uint4*>(from);
  const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = __uint_as_float(words[i] << 16);
    to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}
template <class T>
__device__ inline T rounded(float x) {
  if constexpr (sizeof(T) == 4) return x;
  else return __float2bfloat16_rn(x);
}

template <class T>
struct Layout {
  static constexpr int SLOT = sizeof(T) == 4 ? 24576 : 18432, ROW = WIDTH * int(sizeof(T));
  static constexpr int CACHED = 2 * CACHE * HEAD * int(sizeof(T));

  // Columns of a slot: the most that a block has are cut into equal pieces.
  __device__ static int columns_of_slot(int kind, int blocks) {
    const int room = SLOT / (terms(kind) * int(sizeof(T)));
    const int most = (columns(kind) + blocks - 1) / blocks, pieces = (most + room - 1) / room;
    return kind == LOGITS ? room : (most + pieces - 1) / pieces;
  }
};

struct Shared {
  alignas(16) float x[2 * WIDTH];  // the residual; what attention gives
  float sums[2][WARPS];
  float heads[3][HEAD];
  float scores[CACHE];
  float outputs[WARPS / 2][HEAD];
  float partial[2][WARPS][MOST_ROWS];  // of slices of terms
  int numbers[WARPS];
  int begin[KINDS], end[KINDS], step[KINDS];  // columns of this block; those of a slot
  volatile int reached;
  unsigned spent[KINDS][PARTS];
  alignas(8) uint64_t full[MOST_SLOTS], empty[MOST_SLOTS], cached;
};
