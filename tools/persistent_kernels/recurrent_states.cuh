// Two LSTM layers whose blocks hand each other whole states: Method says how.
#pragma once

#include "recurrent_kernel.cuh"

__device__ inline uint32_t in_block(uint32_t address, int rank) {
  uint32_t result;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address), "r"(rank));
  return result;
}

__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

__device__ inline bool arrived_from_cluster(uint32_t barrier, unsigned parity) {
  uint32_t result;
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(result)
      : "r"(barrier), "r"(parity)
      : "memory");
  return result;
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
        while (!dead && !arrived_from_cluster(shared_address(&barriers[before]), (round - 1) / 2 % 2))
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
