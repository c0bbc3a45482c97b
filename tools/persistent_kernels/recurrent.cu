// Two LSTM layers of 256 units as one persistent kernel: weights stay in registers for all steps, and blocks hand each
// other their parts of the states. Layer 2 computes step t - 1 beside layer 1's step t, so all steps are one chain of
// rounds. See recurrent.py, which draws the inputs, compares with float64, and prints what this measures.
//
//     recurrent DIRECTORY check|time VARIANT...

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

constexpr int WIDTH = 256, BATCH = 32, GATES = 4, LAYERS = 2;
constexpr int THREADS = 384, WARPS = THREADS / 32, TERMS = 64;  // of a warp, of the 768 rows of [U1; W2; U2]
constexpr int AHEAD = 4;                                        // rounds whose inputs are on their way
constexpr int SPINS = 1 << 20;
constexpr int PHASES = 6;  // wait, multiply, the block's barrier, sums, cell, handing on; the last three may be one

#define CHECK(call)                                                                             \
  do {                                                                                          \
    cudaError_t status = (call);                                                                \
    if (status != cudaSuccess) {                                                                \
      std::fprintf(stderr, "%s:%d %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status)); \
      std::exit(1);                                                                             \
    }                                                                                           \
  } while (0)

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

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline uint32_t in_block(uint32_t address, int rank) {
  uint32_t result;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address), "r"(rank));
  return result;
}

__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

__device__ inline void expect_bytes(uint32_t barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ inline bool arrived(uint32_t barrier, unsigned parity) {
  uint32_t result;
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(result)
      : "r"(barrier), "r"(parity)
      : "memory");
  return result;
}

__device__ inline unsigned load_acquire(const unsigned* pointer) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(pointer) : "memory");
  return value;
}

__device__ inline uint4 load_packet(const void* pointer) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(pointer)
               : "memory");
  return v;
}

__device__ inline void store_packet(void* pointer, unsigned first, unsigned second, unsigned round) {
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(pointer), "r"(first), "r"(round),
               "r"(second)
               : "memory");
}

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

template <Arithmetic A, int SHARERS, int ROWS>
struct Shape {
  static constexpr int UNITS = WIDTH / SHARERS, COLUMNS = GATES * UNITS, CELLS = LAYERS * UNITS * ROWS;
  static constexpr int CHUNK = A == BF16 ? 8 : 16;  // bytes that four threads of cells send together
  // FLOAT: [layer, unit, row]. Tensor cores: [layer, row, unit], rows padded against bank conflicts.
  static constexpr int STRIDE = A == FLOAT ? 16 : A == TF32 ? (WIDTH + 16) * 4 : WIDTH * 2 + 64;
  static constexpr int LAYER = A == FLOAT ? WIDTH * STRIDE : ROWS * STRIDE, STATE = LAYERS * LAYER;
  static constexpr unsigned SENT = LAYERS * WIDTH * ROWS * (A == BF16 ? 2 : 4);
  static constexpr int TILES = COLUMNS / 16, STEPS = TERMS / (A == BF16 ? 16 : 8);
  static_assert(A != FLOAT || (ROWS == 4 && UNITS == 16));
  static_assert(CELLS <= THREADS && CELLS % 32 == 0);
};

template <Arithmetic A, int SHARERS, int ROWS>
struct Shared {
  using S = Shape<A, SHARERS, ROWS>;
  alignas(128) char state[2][S::STATE];
  alignas(16) float partial[WARPS][S::COLUMNS * ROWS];
  alignas(16) float coming[AHEAD][S::CELLS / LAYERS][GATES];
  alignas(8) uint64_t barriers[2];
};

// The weights of a thread, in the order in which products take them.
template <Arithmetic A, int SHARERS, int ROWS>
struct Weights {
  using S = Shape<A, SHARERS, ROWS>;
  uint32_t fragments[S::STEPS][S::TILES][4];

  __device__ static float at(const float* weights, int term, int rank, int column) {
    int gate = column / S::UNITS, unit = column % S::UNITS;
    return __ldg(weights + size_t(term) * (GATES * WIDTH) + gate * WIDTH + rank * S::UNITS + unit);
  }

  __device__ void load(const float* weights, int first, int rank, int lane) {
    const int q = lane % 4;
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s)
#pragma unroll
      for (int t = 0; t < S::TILES; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          int column = 16 * t + lane / 4 + 8 * (i % 2);
          if constexpr (A == TF32) {
            int term = first + 16 * (s / 2) + 4 * q + 2 * (s % 2) + i / 2;
            fragments[s][t][i] = as_tf32(at(weights, term, rank, column));
          } else {
            int term = first + 32 * (s / 2) + 8 * q + 4 * (s % 2) + 2 * (i / 2);
            fragments[s][t][i] = as_bf16(at(weights, term, rank, column), at(weights, term + 1, rank, column));
          }
        }
  }

  __device__ void multiply(const char* state, float* partial, int first, int lane) const {
    float sums[S::TILES][4] = {};
    const int row = lane / 4, q = lane % 4;
    const char* from = state + row * S::STRIDE + (first + (A == TF32 ? 4 : 8) * q) * (A == TF32 ? 4 : 2);
#pragma unroll
    for (int s = 0; s < S::STEPS; s += 2) {
      uint4 h = make_uint4(0, 0, 0, 0);
      if (ROWS == 8 || row < ROWS) h = *reinterpret_cast<const uint4*>(from + s / 2 * 64);
#pragma unroll
      for (int t = 0; t < S::TILES; ++t) {
        if constexpr (A == TF32) {
          multiply_tf32(sums[t], fragments[s][t], h.x, h.y);
        } else {
          multiply_bf16(sums[t], fragments[s][t], h.x, h.y);
        }
      }
#pragma unroll
      for (int t = 0; t < S::TILES; ++t) {
        if constexpr (A == TF32) {
          multiply_tf32(sums[t], fragments[s + 1][t], h.z, h.w);
        } else {
          multiply_bf16(sums[t], fragments[s + 1][t], h.z, h.w);
        }
      }
    }
    if (2 * q < ROWS)
#pragma unroll
      for (int t = 0; t < S::TILES; ++t)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          int column = 16 * t + row + 8 * half;
          *reinterpret_cast<float2*>(partial + column * ROWS + 2 * q) =
              make_float2(sums[t][2 * half], sums[t][2 * half + 1]);
        }
  }
};

template <int SHARERS, int ROWS>
struct Weights<FLOAT, SHARERS, ROWS> {
  using S = Shape<FLOAT, SHARERS, ROWS>;
  float values[TERMS / 2][GATES];

  __device__ void load(const float* weights, int first, int rank, int lane) {
#pragma unroll
    for (int j = 0; j < TERMS / 2; ++j)
#pragma unroll
      for (int gate = 0; gate < GATES; ++gate)
        values[j][gate] = __ldg(weights + size_t(first + 2 * j + lane / 16) * (GATES * WIDTH) + gate * WIDTH +
                                rank * S::UNITS + lane % 16);
  }

  __device__ void multiply(const char* state, float* partial, int first, int lane) const {
    float sums[GATES][4] = {};
    const float4* from = reinterpret_cast<const float4*>(state) + first + lane / 16;
#pragma unroll
    for (int j = 0; j < TERMS / 2; ++j) {
      float4 h = from[2 * j];
#pragma unroll
      for (int gate = 0; gate < GATES; ++gate) {
        sums[gate][0] += values[j][gate] * h.x;
        sums[gate][1] += values[j][gate] * h.y;
        sums[gate][2] += values[j][gate] * h.z;
        sums[gate][3] += values[j][gate] * h.w;
      }
    }
    const int half = lane / 16;
#pragma unroll
    for (int gate = 0; gate < GATES; ++gate) {
      float first_given = half ? sums[gate][0] : sums[gate][2], second_given = half ? sums[gate][1] : sums[gate][3];
      float first_kept = half ? sums[gate][2] : sums[gate][0], second_kept = half ? sums[gate][3] : sums[gate][1];
      first_kept += __shfl_xor_sync(0xffffffffu, first_given, 16);
      second_kept += __shfl_xor_sync(0xffffffffu, second_given, 16);
      *reinterpret_cast<float2*>(partial + (gate * S::UNITS + lane % 16) * ROWS + 2 * half) =
          make_float2(first_kept, second_kept);
    }
  }
};

template <Arithmetic A, Method M, int SHARERS, int ROWS>
__global__ void __launch_bounds__(THREADS, 1) recurrent(const __grid_constant__ Arguments a) {
  using S = Shape<A, SHARERS, ROWS>;
  extern __shared__ __align__(128) char memory[];
  auto& [state, partial, coming, barriers] = *reinterpret_cast<Shared<A, SHARERS, ROWS>*>(memory);

  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int group = blockIdx.x / SHARERS, rank = blockIdx.x % SHARERS;
  const int matrix = warp / (WARPS / 3), first = warp % (WARPS / 3) * TERMS;

  // Which element of a state this thread computes: four neighbours make a chunk.
  const int layer = thread / (S::CELLS / LAYERS), element = thread % (S::CELLS / LAYERS);
  const bool has_cell = thread < S::CELLS;
  const int row = A == FLOAT ? element % 4 : element / 4 % ROWS;
  const int unit = A == FLOAT ? element / 4 : element / 4 / ROWS * 4 + element % 4;
  const int column = rank * S::UNITS + unit, batch = group * ROWS + row;
  const int chunk_at =
      layer * S::LAYER + (A == FLOAT ? column * S::STRIDE : row * S::STRIDE + column / 4 * S::CHUNK);

  Weights<A, SHARERS, ROWS> weights;
  weights.load(a.weights + size_t(matrix) * WIDTH * GATES * WIDTH, first, rank, lane);
  float bias[GATES] = {}, cell = 0.0f;
  if (has_cell && layer == 1)
    for (int gate = 0; gate < GATES; ++gate) bias[gate] = a.bias[gate * WIDTH + column];

  auto ask_for_inputs = [&](int round) {
    if (has_cell && layer == 0 && round < a.steps && round <= a.last) {
      const float* from = a.inputs + (size_t(batch) * a.steps + round) * (GATES * WIDTH) + column;
      for (int gate = 0; gate < GATES; ++gate)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                         shared_address(&coming[round % AHEAD][element][gate])),
                     "l"(from + gate * WIDTH)
                     : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  for (int i = 0; i < AHEAD - 1; ++i) ask_for_inputs(a.first + i);

  if constexpr (M == LAUNCHES) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
  }
  if (M != LAUNCHES || a.first == 0)
    for (int i = thread; i < S::STATE / 4; i += THREADS) reinterpret_cast<float*>(state[1])[i] = 0.0f;
  if (M == ASYNC && thread == 0)
    for (int i = 0; i < 2; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barriers[i])) : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      expect_bytes(shared_address(&barriers[i]), S::SENT);
    }
  __syncthreads();
  if constexpr (M == BARRIER || M == ASYNC) {
    cluster_arrive();
    cluster_wait();
  }
  float* const kept_cell = a.cells + blockIdx.x * THREADS + thread;
  if (M == LAUNCHES && a.first > 0 && has_cell) cell = __ldcg(kept_cell);

  // What group's blocks exchange in device memory: of two rounds.
  constexpr int EXCHANGED = M == PACKETS ? 2 * S::STATE : S::STATE;
  char* const exchange = a.exchange + size_t(group) * 2 * EXCHANGED;
  bool dead = false;
  unsigned spent[PHASES] = {}, now = unsigned(clock());
  auto phase = [&](int which) {
    const unsigned then = unsigned(clock());
    spent[which] += then - now;
    now = then;
  };

  for (int round = a.first; round <= a.last; ++round) {
    const int before = (round + 1) % 2, here = round % 2;
    if (round > a.first || (M == LAUNCHES && round > 0)) {
      if constexpr (M == GRID || M == GROUP) {
        if (thread == 0) {
          const unsigned* counter = a.counters + (M == GRID ? 0 : group * 32);
          unsigned wanted = (a.turn + round) * (M == GRID ? gridDim.x : SHARERS);
          int spins = 0;
          while (!dead && int(load_acquire(counter) - wanted) < 0)
            if (++spins > SPINS) dead = true, atomicExch(a.error, 1);
        }
        __syncthreads();
      }
      if constexpr (M == GRID || M == GROUP || M == LAUNCHES) {
        const char* from = exchange + before * S::STATE;
        for (int i = thread; i < S::STATE / 16; i += THREADS)
          reinterpret_cast<uint4*>(state[before])[i] = __ldcg(reinterpret_cast<const uint4*>(from) + i);
        __syncthreads();
      }
      if constexpr (M == PACKETS) {
        // Two words of a state to a packet, which has twice the size and lies at twice the offset.
        constexpr int PAIRS = S::SENT / 8, IN_ROW = A == FLOAT ? 2 : WIDTH * (A == BF16 ? 2 : 4) / 8;
        constexpr int MINE = (PAIRS + THREADS - 1) / THREADS;
        uint4 found[MINE];
        int at[MINE];
        bool missing;
        int spins = 0;
#pragma unroll
        for (int i = 0; i < MINE; ++i) {
          int pair = min(thread + i * THREADS, PAIRS - 1);
          at[i] = pair / IN_ROW * S::STRIDE + pair % IN_ROW * 8;
        }
        do {
          missing = false;
#pragma unroll
          for (int i = 0; i < MINE; ++i) found[i] = load_packet(exchange + before * EXCHANGED + 2 * at[i]);
#pragma unroll
          for (int i = 0; i < MINE; ++i)
            missing |= found[i].y != a.turn + round || found[i].w != a.turn + round;
          if (++spins > SPINS) dead = true, atomicExch(a.error, 1);
        } while (missing && !dead);
#pragma unroll
        for (int i = 0; i < MINE; ++i)
          *reinterpret_cast<uint2*>(state[before] + at[i]) = make_uint2(found[i].x, found[i].z);
        __syncthreads();
      }
      if constexpr (M == BARRIER) cluster_wait();
      if constexpr (M == ASYNC) {
        int spins = 0;
        while (!dead && !arrived(shared_address(&barriers[before]), (round - 1) / 2 % 2))
          if (++spins > SPINS) dead = true, atomicExch(a.error, 1);
        if (thread == 0) expect_bytes(shared_address(&barriers[before]), S::SENT);
      }
    }
    phase(0);
    weights.multiply(state[before] + (matrix == 2 ? S::LAYER : 0), partial[warp], first, lane);
    phase(1);
    __syncthreads();
    phase(2);
    ask_for_inputs(round + AHEAD - 1);
    if (has_cell) {
      asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
      float z[GATES];
      for (int gate = 0; gate < GATES; ++gate) {
        const int at = (gate * S::UNITS + unit) * ROWS + row;
        float sum = layer == 0 ? coming[round % AHEAD][element][gate] : bias[gate];
        const float* parts = &partial[layer * (WARPS / 3)][at];
        constexpr int STRIDE = S::COLUMNS * ROWS;
        float two[2] = {sum, 0.0f};
#pragma unroll
        for (int w = 0; w < WARPS / 3; ++w) two[w % 2] += parts[w * STRIDE];
        if (layer == 1)
#pragma unroll
          for (int w = WARPS / 3; w < WARPS * 2 / 3; ++w) two[w % 2] += parts[w * STRIDE];
        z[gate] = two[0] + two[1];
      }
      float h = 0.0f;
      if (layer == 0 ? round < a.steps : round > 0) {
        cell = sigmoid(z[1]) * cell + sigmoid(z[0]) * hyperbolic(z[2]);
        h = sigmoid(z[3]) * hyperbolic(cell);
        if (layer == 1) a.outputs[(size_t(batch) * a.steps + round - 1) * WIDTH + column] = h;
      }
      if (round < a.steps) {
        float four[4];
        for (int i = 0; i < 4; ++i) four[i] = __shfl_sync(0xffffffffu, h, lane / 4 * 4 + i);
        uint32_t words[S::CHUNK / 4];
        for (int i = 0; i < S::CHUNK / 4; ++i)
          words[i] = A == FLOAT  ? __float_as_uint(four[i])
                     : A == TF32 ? as_tf32(four[i])
                                 : as_bf16(four[2 * i % 4], four[(2 * i + 1) % 4]);
        if constexpr (M == GRID || M == GROUP || M == LAUNCHES) {
          if (lane % 4 == 0) {
            char* to = exchange + here * S::STATE + chunk_at;
            if constexpr (A == BF16) {
              *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
            } else {
              *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
            }
          }
        }
        if constexpr (M == PACKETS) {
          char* to = exchange + here * EXCHANGED + 2 * chunk_at;
          if (lane % 4 == 0) store_packet(to, words[0], words[1], a.turn + round + 1);
          if constexpr (A != BF16) {
            if (lane % 4 == 1) store_packet(to + 16, words[2], words[3], a.turn + round + 1);
          }
        }
        if constexpr (M == BARRIER || M == ASYNC) {
          const uint32_t to = shared_address(state[here]) + chunk_at, barrier = shared_address(&barriers[here]);
#pragma unroll
          for (int i = 0; i < SHARERS / 4; ++i) {
            const int other = (lane % 4 + 4 * i + rank) % SHARERS;
            if constexpr (M == BARRIER && A == BF16)
              asm volatile("st.shared::cluster.v2.b32 [%0], {%1, %2};" ::"r"(in_block(to, other)), "r"(words[0]),
                           "r"(words[1])
                           : "memory");
            if constexpr (M == BARRIER && A != BF16)
              asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(in_block(to, other)),
                           "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                           : "memory");
            if constexpr (M == ASYNC && A == BF16)
              asm volatile(
                  "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(
                      in_block(to, other)),
                  "r"(words[0]), "r"(words[1]), "r"(in_block(barrier, other))
                  : "memory");
            if constexpr (M == ASYNC && A != BF16)
              asm volatile(
                  "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                      in_block(to, other)),
                  "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(in_block(barrier, other))
                  : "memory");
          }
        }
      }
    }
    if constexpr (M == BARRIER) {
      __syncwarp();
      if (round < a.last) cluster_arrive();
    }
    if constexpr (M == GRID || M == GROUP) {
      __syncthreads();
      if (thread == 0 && round < a.last) {
        __threadfence();
        atomicAdd(a.counters + (M == GRID ? 0 : group * 32), 1u);
      }
    }
    phase(5);
  }
  if (M == LAUNCHES && has_cell) *kept_cell = cell;
  asm volatile("cp.async.wait_all;" ::: "memory");
  if constexpr (M == BARRIER || M == ASYNC) {
    cluster_arrive();
    cluster_wait();
  }
  if (thread == 0 && blockIdx.x == 0 && a.trace)
    for (int i = 0; i < PHASES; ++i) a.trace[i] = spent[i];
}

#include "recurrent_words.cuh"

struct Variant {
  std::string name;
  void (*kernel)(Arguments);
  Method method;
  int sharers, rows;
  size_t shared;
};

template <Arithmetic A, Method M, int SHARERS, int ROWS>
Variant variant() {
  const char* arithmetics[] = {"float32", "tf32", "bfloat16"};
  const char* methods[] = {"grid", "group", "packets", "barrier", "async", "launches"};
  std::string name = std::string(arithmetics[A]) + ":" + methods[M] + ":" + std::to_string(SHARERS) + "x" +
                     std::to_string(BATCH / ROWS);
  return {name, recurrent<A, M, SHARERS, ROWS>, M, SHARERS, ROWS, sizeof(Shared<A, SHARERS, ROWS>)};
}

template <Arithmetic A, bool TOGETHER>
Variant words_variant() {
  const char* names[] = {"float32", "tf32", "bfloat16"};
  const char* method = TOGETHER ? ":words_together:32x4" : ":words:32x4";
  return {std::string(names[A]) + method, recurrent_words<A, TOGETHER>, WORDS, WordShape<A>::SHARERS,
          WordShape<A>::ROWS, sizeof(WordShared<A>)};
}

std::vector<Variant> variants() {
  return {
      words_variant<FLOAT, true>(), words_variant<FLOAT, false>(), words_variant<TF32, true>(),
      words_variant<TF32, false>(),  words_variant<BF16, true>(),   words_variant<BF16, false>(),
      variant<FLOAT, LAUNCHES, 16, 4>(), variant<FLOAT, GRID, 16, 4>(),    variant<FLOAT, GROUP, 16, 4>(),
      variant<FLOAT, PACKETS, 16, 4>(),  variant<FLOAT, BARRIER, 16, 4>(), variant<FLOAT, ASYNC, 16, 4>(),
      variant<TF32, LAUNCHES, 16, 4>(),  variant<TF32, GRID, 16, 4>(),     variant<TF32, GROUP, 16, 4>(),
      variant<TF32, PACKETS, 16, 4>(),   variant<TF32, PACKETS, 32, 8>(),  variant<TF32, BARRIER, 16, 4>(),
      variant<TF32, ASYNC, 16, 4>(),     variant<TF32, ASYNC, 16, 8>(),    variant<BF16, LAUNCHES, 16, 4>(),
      variant<BF16, PACKETS, 16, 4>(),   variant<BF16, ASYNC, 16, 4>(),    variant<BF16, ASYNC, 16, 8>(),
      variant<BF16, ASYNC, 8, 4>(),      variant<BF16, ASYNC, 8, 2>(),     variant<BF16, BARRIER, 8, 4>(),
  };
}

std::vector<float> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) std::fprintf(stderr, "no %s\n", path.c_str()), std::exit(1);
  std::vector<float> values(size_t(file.tellg()) / 4);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()), std::streamsize(values.size() * 4));
  return values;
}

template <class T>
T* device(size_t count, const T* from = nullptr) {
  T* memory;
  CHECK(cudaMalloc(&memory, count * sizeof(T)));
  CHECK(cudaMemset(memory, 0, count * sizeof(T)));
  if (from) CHECK(cudaMemcpy(memory, from, count * sizeof(T), cudaMemcpyHostToDevice));
  return memory;
}

// Launches of a variant: its memory, and a graph where each round is a launch.
class Runner {
 public:
  Runner(const Variant& v, const std::string& directory, cudaStream_t stream) : variant_(v), stream_(stream) {
    auto inputs = read(directory + "/inputs.bin"), weights = read(directory + "/weights.bin");
    auto bias = read(directory + "/bias.bin");
    a_.inputs = device(inputs.size(), inputs.data());
    a_.weights = device(weights.size(), weights.data());
    a_.bias = device(bias.size(), bias.data());
    a_.steps = int(inputs.size() / (BATCH * GATES * WIDTH));
    a_.outputs = device<float>(outputs());
    a_.exchange = device<char>(4 << 20);
    a_.counters = device<unsigned>(1024);
    a_.cells = device<float>(size_t(grid()) * THREADS);
    a_.error = device<int>(1);
    a_.trace = device<unsigned>(PHASES);
    a_.turn = v.method == WORDS ? 2 : 0, a_.first = 0, a_.last = a_.steps;
    CHECK(cudaMemset(a_.outputs, 0xff, outputs() * 4));
    CHECK(cudaFuncSetAttribute(v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(v.shared)));
    if (clusters() && v.sharers > 8)
      CHECK(cudaFuncSetAttribute(v.kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    if (v.method == LAUNCHES) capture();
  }

  void launch() {
    if (graph_) {
      CHECK(cudaGraphLaunch(graph_, stream_));
      return;
    }
    one();
    a_.turn += variant_.method == PACKETS ? a_.steps + 1 : std::min(a_.last + 1, a_.steps);
  }

  int most_clusters() {
    if (!clusters()) return -1;
    cudaLaunchAttribute attribute[1];
    cudaLaunchConfig_t config = configuration(attribute);
    int count = 0;
    CHECK(cudaOccupancyMaxActiveClusters(&count, variant_.kernel, &config));
    return count;
  }

  void finish() {
    CHECK(cudaStreamSynchronize(stream_));
    int error = 0;
    CHECK(cudaMemcpy(&error, a_.error, sizeof error, cudaMemcpyDeviceToHost));
    if (error) std::printf("%s: a wait did not end\n", variant_.name.c_str()), std::exit(2);
  }

  std::vector<float> result() {
    std::vector<float> values(outputs());
    CHECK(cudaMemcpy(values.data(), a_.outputs, outputs() * 4, cudaMemcpyDeviceToHost));
    return values;
  }

  std::vector<unsigned> trace() {
    std::vector<unsigned> values(PHASES);
    CHECK(cudaMemcpy(values.data(), a_.trace, PHASES * sizeof(unsigned), cudaMemcpyDeviceToHost));
    return values;
  }

  int rounds() const { return a_.steps + 1; }

  // Launches of the first round alone, or of all.
  void only_begin(bool whether) { a_.last = whether ? 0 : a_.steps; }
  bool can_begin() const { return variant_.method == WORDS; }

 private:
  size_t outputs() const { return size_t(BATCH) * a_.steps * WIDTH; }
  bool clusters() const { return variant_.method == BARRIER || variant_.method == ASYNC; }
  int grid() const { return BATCH / variant_.rows * variant_.sharers; }

  cudaLaunchConfig_t configuration(cudaLaunchAttribute* attribute) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(grid());
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = variant_.shared;
    config.stream = stream_;
    config.attrs = attribute;
    config.numAttrs = 1;
    if (clusters()) {
      attribute->id = cudaLaunchAttributeClusterDimension;
      attribute->val.clusterDim.x = variant_.sharers;
      attribute->val.clusterDim.y = attribute->val.clusterDim.z = 1;
    } else if (variant_.method == LAUNCHES) {
      attribute->id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attribute->val.programmaticStreamSerializationAllowed = 1;
    } else {
      attribute->id = cudaLaunchAttributeCooperative;
      attribute->val.cooperative = 1;
    }
    return config;
  }

  void one() {
    cudaLaunchAttribute attribute[1];
    cudaLaunchConfig_t config = configuration(attribute);
    CHECK(cudaLaunchKernelEx(&config, variant_.kernel, a_));
  }

  void capture() {
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    for (int round = 0; round <= a_.steps; ++round) {
      a_.first = a_.last = round;
      one();
    }
    CHECK(cudaStreamEndCapture(stream_, &graph));
    CHECK(cudaGraphInstantiate(&graph_, graph, 0));
  }

  Variant variant_;
  cudaStream_t stream_;
  Arguments a_ = {};
  cudaGraphExec_t graph_ = nullptr;
};

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  auto all = variants();
  if (argc < 4) {
    for (const auto& v : all) std::printf("%s\n", v.name.c_str());
    return 0;
  }
  const std::string directory = argv[1];
  const bool timed = !std::strcmp(argv[2], "time");
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  std::vector<Variant> chosen;
  for (int i = 3; i < argc; ++i)
    for (const auto& v : all)
      if (v.name == argv[i]) chosen.push_back(v);
  std::vector<Runner> runners;
  for (const auto& v : chosen) runners.emplace_back(v, directory, stream);

  if (!timed) {
    for (size_t i = 0; i < runners.size(); ++i) {
      runners[i].launch();
      runners[i].launch();
      runners[i].finish();
      auto values = runners[i].result();
      std::ofstream(directory + "/" + chosen[i].name + ".outputs", std::ios::binary)
          .write(reinterpret_cast<const char*>(values.data()), std::streamsize(values.size() * 4));
      cudaFuncAttributes attributes;
      CHECK(cudaFuncGetAttributes(&attributes, chosen[i].kernel));
      std::printf("%s registers %d spilled %zu clusters %d\n", chosen[i].name.c_str(), attributes.numRegs,
                  attributes.localSizeBytes, runners[i].most_clusters());
    }
    return 0;
  }
  constexpr int TURNS = 31, CALLS = 5;
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<std::vector<float>> times(runners.size());
  for (int turn = -3; turn < TURNS; ++turn)
    for (size_t i = 0; i < runners.size(); ++i) {
      runners[i].launch();
      CHECK(cudaEventRecord(begin, stream));
      for (int call = 0; call < CALLS; ++call) runners[i].launch();
      CHECK(cudaEventRecord(end, stream));
      runners[i].finish();
      float ms;
      CHECK(cudaEventElapsedTime(&ms, begin, end));
      if (turn >= 0) times[i].push_back(ms * 1000.0f / CALLS);
    }
  std::vector<float> begins(runners.size());
  for (size_t i = 0; i < runners.size(); ++i) {
    if (!runners[i].can_begin()) continue;
    runners[i].only_begin(true);
    std::vector<float> found;
    for (int turn = 0; turn < TURNS; ++turn) {
      runners[i].launch();
      CHECK(cudaEventRecord(begin, stream));
      for (int call = 0; call < CALLS; ++call) runners[i].launch();
      CHECK(cudaEventRecord(end, stream));
      runners[i].finish();
      float ms;
      CHECK(cudaEventElapsedTime(&ms, begin, end));
      found.push_back(ms * 1000.0f / CALLS);
    }
    std::sort(found.begin(), found.end());
    begins[i] = found[found.size() / 2];
    runners[i].only_begin(false);
    runners[i].launch();  // the trace of all rounds
    runners[i].finish();
  }
  for (size_t i = 0; i < runners.size(); ++i) {
    auto& t = times[i];
    std::sort(t.begin(), t.end());
    auto trace = runners[i].trace();
    std::printf("%s,%.2f,%.2f,%.2f,%.2f", chosen[i].name.c_str(), t[t.size() / 2], t[t.size() / 4], t[t.size() * 3 / 4],
                begins[i]);
    for (auto cycles : trace) std::printf(",%.0f", double(cycles) / runners[i].rounds());
    std::printf("\n");
  }
  return 0;
}
