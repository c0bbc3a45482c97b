// As recurrent_states.cuh, where every word of a state says itself of which round it is: a warp asks for those that
// it multiplies until they are there, straight into fragments, and waits for nobody else. A state of an LSTM is between
// -1 and 1, so that the second bit of a float and of a bfloat16 is free: it flips each time a word is written.
//
// Tensor cores multiply 8 rows at least, so 32 blocks share 8 rows, each with 8 units of both layers.
#pragma once

#include "recurrent_kernel.cuh"

// FLOAT: three products of the parts of float32 that TF32 has (high, high; high, low; low, high).
template <Arithmetic A>
struct WordShape {
  static constexpr int SHARERS = 32, ROWS = 8, UNITS = WIDTH / SHARERS, COLUMNS = GATES * UNITS;
  static constexpr int LANES = 2, CELLS = LAYERS * UNITS * ROWS, GATE = UNITS * ROWS + 4;  // padded against conflicts
  static constexpr int BYTES = A == BF16 ? 2 : 4, CHUNK = 16 / BYTES;  // bytes of an element, elements of a chunk
  static constexpr int LAYER = WIDTH * ROWS * BYTES, STATE = LAYERS * LAYER;
  static constexpr int LOADS = TERMS / (4 * CHUNK);  // of a lane: fragments of two steps of products each
  static constexpr uint32_t MARK = 0x40000000u;
};

template <Arithmetic A>
struct WordShared {
  float partial[2][WARPS][GATES * WordShape<A>::GATE];
  alignas(16) float coming[AHEAD][WordShape<A>::CELLS / LAYERS][GATES];
};

template <Arithmetic A, bool TOGETHER>
__global__ void __launch_bounds__(THREADS, 1) recurrent_words(const __grid_constant__ Arguments a) {
  using S = WordShape<A>;
  extern __shared__ __align__(128) char memory[];
  WordShared<A>& shared = *reinterpret_cast<WordShared<A>*>(memory);
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, q = lane % 4;
  const int group = blockIdx.x / S::SHARERS, rank = blockIdx.x % S::SHARERS;
  const int matrix = warp / (WARPS / 3), first = warp % (WARPS / 3) * TERMS;

  // Rows of a product are columns of weights: 16 are two gates of 8 units.
  uint32_t high[2 * S::LOADS][2][4], low[A == FLOAT ? 2 * S::LOADS : 1][2][4];
  auto weight = [&](int term, int tile, int i) {
    const int gate = 2 * tile + i % 2, unit = rank * S::UNITS + lane / 4;
    return __ldg(a.weights + (size_t(matrix) * WIDTH + term) * (GATES * WIDTH) + gate * WIDTH + unit);
  };
#pragma unroll
  for (int s = 0; s < 2 * S::LOADS; ++s)
#pragma unroll
    for (int t = 0; t < 2; ++t)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (A == BF16) {
          const int term = first + 32 * (s / 2) + 8 * q + 4 * (s % 2) + 2 * (i / 2);
          high[s][t][i] = as_bf16(weight(term, t, i), weight(term + 1, t, i));
        } else {
          const float w = weight(first + 16 * (s / 2) + 4 * q + 2 * (s % 2) + i / 2, t, i);
          high[s][t][i] = as_tf32(w);
          if constexpr (A == FLOAT) low[s][t][i] = as_tf32(w - __uint_as_float(high[s][t][i]));
        }
      }

  // Two lanes compute an element: input and new value, and forget and output gate, which has the cell.
  const bool has_cell = thread < S::CELLS * S::LANES;
  const int layer = thread / (S::CELLS / LAYERS * S::LANES), side = thread % 2;
  const int element = thread / 2 % (S::CELLS / LAYERS);
  const int unit = element / 32 * 4 + element % 4, row = element / 4 % 8;
  const int column = rank * S::UNITS + unit, batch = group * S::ROWS + row;
  const float bias[2] = {layer == 1 ? a.bias[side * WIDTH + column] : 0.0f,
                         layer == 1 ? a.bias[(2 + side) * WIDTH + column] : 0.0f};
  const float* coming_from = a.inputs + size_t(batch) * a.steps * (GATES * WIDTH) + side * WIDTH + column;
  float* output = a.outputs + size_t(batch) * a.steps * WIDTH + column;
  float cell = 0.0f;
  auto ask_for_inputs = [&](int round) {
    if (has_cell && layer == 0 && round < a.steps)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                         shared_address(&shared.coming[round % AHEAD][element][side + 2 * i])),
                     "l"(coming_from + size_t(round) * (GATES * WIDTH) + 2 * i * WIDTH)
                     : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  for (int i = 0; i < AHEAD - 1; ++i) ask_for_inputs(i);

  // [round, layer, chunk of terms, row, term]
  char* const exchange = a.exchange + size_t(group) * 2 * S::STATE;
  const char* const from = exchange + (matrix == 2 ? S::LAYER : 0) + ((first / S::CHUNK + q) * 8 + lane / 4) * 16;
  char* const to = exchange + layer * S::LAYER + (column / S::CHUNK * 8 + row) * 16 + column % S::CHUNK * S::BYTES;
  bool dead = false;
  unsigned spent[PHASES] = {}, now = unsigned(clock());
  auto phase = [&](int which) {
    const unsigned then = unsigned(clock());
    spent[which] += then - now;
    now = then;
  };

  for (int round = 0; round <= a.last; ++round) {
    uint4 h[S::LOADS];
    const unsigned number = a.turn + round - 1;
    const uint32_t mark = number / 2 % 2 ? S::MARK : 0;
    if (round > 0) {
      const char* here = from + number % 2 * S::STATE;
      uint32_t missing;
      int spins = 0;
#pragma unroll
      for (int i = 0; i < S::LOADS; ++i) h[i] = load_packet(here + i * 512);
      do {
        missing = 0;
#pragma unroll
        for (int i = 0; i < S::LOADS; ++i) {
          const uint32_t old = ((h[i].x ^ mark) | (h[i].y ^ mark) | (h[i].z ^ mark) | (h[i].w ^ mark)) & S::MARK;
          if (old) h[i] = load_packet(here + i * 512);
          missing |= old;
        }
        if (++spins > SPINS) dead = true, atomicExch(a.error, 1);
      } while (missing && !dead);
      __syncwarp();
#pragma unroll
      for (int i = 0; i < S::LOADS; ++i) h[i].x ^= mark, h[i].y ^= mark, h[i].z ^= mark, h[i].w ^= mark;
    } else {
#pragma unroll
      for (int i = 0; i < S::LOADS; ++i) h[i] = make_uint4(0, 0, 0, 0);
    }
    phase(0);
    float sums[2][2][4] = {};  // of even and odd steps, of tiles
#pragma unroll
    for (int i = 0; i < S::LOADS; ++i) {
      const uint32_t words[4] = {h[i].x, h[i].y, h[i].z, h[i].w};
#pragma unroll
      for (int s = 0; s < 2; ++s)
#pragma unroll
        for (int t = 0; t < 2; ++t) {
          if constexpr (A == BF16) {
            multiply_bf16(sums[s][t], high[2 * i + s][t], words[2 * s], words[2 * s + 1]);
          } else if constexpr (A == TF32) {
            multiply_tf32(sums[s][t], high[2 * i + s][t], words[2 * s], words[2 * s + 1]);
          } else {
            uint32_t upper[2], lower[2];
#pragma unroll
            for (int j = 0; j < 2; ++j) {
              upper[j] = as_tf32(__uint_as_float(words[2 * s + j]));
              lower[j] = as_tf32(__uint_as_float(words[2 * s + j]) - __uint_as_float(upper[j]));
            }
            multiply_tf32(sums[s][t], high[2 * i + s][t], lower[0], lower[1]);
            multiply_tf32(sums[s][t], low[2 * i + s][t], upper[0], upper[1]);
            multiply_tf32(sums[s][t], high[2 * i + s][t], upper[0], upper[1]);
          }
        }
    }
    float* const partial = shared.partial[round % 2][warp];
#pragma unroll
    for (int t = 0; t < 2; ++t)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<float2*>(partial + (2 * t + half) * S::GATE + lane / 4 * S::ROWS + 2 * q) =
            make_float2(sums[0][t][2 * half] + sums[1][t][2 * half], sums[0][t][2 * half + 1] + sums[1][t][2 * half + 1]);
    phase(1);
    __syncthreads();
    phase(2);
    if (has_cell) {
      const float* parts = &shared.partial[round % 2][layer * (WARPS / 3)][side * S::GATE + unit * S::ROWS + row];
      constexpr int STRIDE = GATES * S::GATE;
      float z[2] = {bias[0], bias[1]};
      if (layer == 0) {
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 2) : "memory");
        float found[2][WARPS / 3];
#pragma unroll
        for (int w = 0; w < WARPS / 3; ++w)
#pragma unroll
          for (int i = 0; i < 2; ++i) found[i][w] = parts[w * STRIDE + 2 * i * S::GATE];
#pragma unroll
        for (int i = 0; i < 2; ++i)
          z[i] = shared.coming[round % AHEAD][element][side + 2 * i] + ((found[i][0] + found[i][1]) + (found[i][2] + found[i][3]));
      } else {
        float found[2][WARPS * 2 / 3];
#pragma unroll
        for (int w = 0; w < WARPS * 2 / 3; ++w)
#pragma unroll
          for (int i = 0; i < 2; ++i) found[i][w] = parts[w * STRIDE + 2 * i * S::GATE];
#pragma unroll
        for (int i = 0; i < 2; ++i)
          z[i] += ((found[i][0] + found[i][1]) + (found[i][2] + found[i][3])) +
                  ((found[i][4] + found[i][5]) + (found[i][6] + found[i][7]));
      }
      phase(3);
      const float one = sigmoid(z[0]);                                    // input or forget gate
      const float two = side ? sigmoid(z[1]) : hyperbolic(z[1]);          // output gate or new value
      const float added = __shfl_xor_sync(0xffffffffu, one * two, 1);     // what the other lane has
      const bool runs = layer == 0 ? round < a.steps : round > 0;
      if (runs) cell = one * cell + added;
      float h_new = runs ? two * hyperbolic(cell) : 0.0f;
      phase(4);
      if (round < a.steps) {
        const uint32_t written = (a.turn + round) / 2 % 2 ? S::MARK : 0;
        char* const there = to + (a.turn + round) % 2 * S::STATE;
        if constexpr (A == BF16) {
          const float neighbour = __shfl_down_sync(0xffffffffu, h_new, 2);
          if (side == 1 && unit % 2 == 0)
            asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(there), "r"(as_bf16(h_new, neighbour) ^ written)
                         : "memory");
        } else {
          const uint32_t word = A == TF32 ? as_tf32(h_new) : __float_as_uint(h_new);
          if (side == 1) asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(there), "r"(word ^ written) : "memory");
        }
      }
      if (side == 1 && layer == 1 && round > 0) output[size_t(round - 1) * WIDTH] = h_new;
    }
    ask_for_inputs(round + AHEAD - 1);
    // Nobody asks for what comes next while this block's elements are computed: that would take them longer.
    if constexpr (TOGETHER) __syncthreads();
    phase(5);
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  if (dead) atomicExch(a.error, 1);
  if (thread == 0 && blockIdx.x == 0 && a.trace)
    for (int i = 0; i < PHASES; ++i) a.trace[i] = spent[i];
}
