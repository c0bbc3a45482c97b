// What a block computes for a word.
#pragma once

#include "decoder_block.cuh"

template <class T, Method M>
struct Decoder : Block<T, M> {
  using L = Layout<T>;
  using Base = Block<T, M>;
  using Base::a, Base::shared, Base::ring, Base::cached, Base::thread, Base::warp, Base::lane, Base::word, Base::dead,
      Base::kept, Base::now;
  using Base::PER, Base::SLICE, Base::LOADS;
  using Base::attends, Base::await, Base::await_barrier, Base::await_weights, Base::column, Base::failed, Base::get,
      Base::give, Base::given, Base::release, Base::tag, Base::time;
  using Base::Base;

  // The word whose logit was largest, of all blocks.
  __device__ int chosen() {
    float value = -INFINITY;
    int number = 0;
    if (thread < int(gridDim.x)) {
      uint4 v;
      int spins = 0;
      do {
        v = load_packet(a.best + thread * 16);
        if (++spins > SPINS) failed();
      } while (M == PACKETS && !dead && (v.y != tag() - 1 || v.w != tag() - 1));
      value = __uint_as_float(v.x), number = int(v.z);
    }
    return best_of_block(value, number).y;
  }

  __device__ int2 best_of_block(float value, int number) {
    for (int step = 16; step; step /= 2) {
      float other = __shfl_xor_sync(0xffffffffu, value, step);
      int others = __shfl_xor_sync(0xffffffffu, number, step);
      if (other > value || (other == value && others < number)) value = other, number = others;
    }
    if (lane == 0) shared.sums[0][warp] = value, shared.numbers[warp] = number;
    consumers_sync();
    for (int i = 0; i < WARPS; ++i) {
      float other = shared.sums[0][i];
      int others = shared.numbers[i];
      if (other > value || (other == value && others < number)) value = other, number = others;
    }
    consumers_sync();
    return make_int2(__float_as_int(value), number);
  }

  // Adds what the phase before gave to the residual, which goes to shared memory; its mean, and one over its deviation.
  template <Kind kind>
  __device__ float2 residual(int phase) {
    if (kind == QKV && phase == 0) {
      await(-1);
      const int token = chosen(), position = a.position + word;
      time(kind, 0);
      if (blockIdx.x == 0 && thread == 0) a.tokens[position] = token;
      const T* row = static_cast<const T*>(a.weights) + weights_at(PHASES - 1) + size_t(token) * WIDTH;
      const float* where = a.extras + LAYERS * EXTRAS + 2 * WIDTH + position * WIDTH;
      for (int i = 0; i < 2; ++i) kept[i] = float(row[2 * thread + i]) + where[2 * thread + i];
    } else {
      await(phase - 1);
      if constexpr (M == LAUNCHES) {
        float2 v = __ldcg(reinterpret_cast<const float2*>(a.residual + (kind == EXPAND ? 0 : WIDTH)) + thread);
        kept[0] = v.x, kept[1] = v.y;
      }
      float2 v = get(phase - 1, thread);
      time(kind, 0);
      kept[0] += v.x, kept[1] += v.y;
    }
    const float2 both = make_float2(kept[0], kept[1]);
    if (M == LAUNCHES && blockIdx.x == 0)
      reinterpret_cast<float2*>(a.residual + (kind == EXPAND ? WIDTH : 0))[thread] = both;
    reinterpret_cast<float2*>(shared.x)[thread] = both;
    float sum = sum_of_warp(kept[0] + kept[1]), squares = sum_of_warp(kept[0] * kept[0] + kept[1] * kept[1]);
    if (lane == 0) shared.sums[0][warp] = sum, shared.sums[1][warp] = squares;
    consumers_sync();
    sum = squares = 0.0f;
#pragma unroll
    for (int i = 0; i < WARPS; ++i) sum += shared.sums[0][i], squares += shared.sums[1][i];
    const float mean = sum * (1.0f / WIDTH);
    return make_float2(mean, rsqrtf(squares * (1.0f / WIDTH) - mean * mean + 1e-5f));
  }

  __device__ const float* norm_of(int phase, int kind) const {
    if (kind == LOGITS) return a.extras + LAYERS * EXTRAS;
    return a.extras + phase / 5 * EXTRAS + 6912 + (kind == EXPAND ? 2 * WIDTH : 0);
  }

  // ---- products ----

  // Of twice N sums each half of the lanes keeps N, and adds those that the other half has.
  template <int N>
  __device__ void exchange(float (&sums)[8], int bit) const {
    const bool upper = lane & bit;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float given_on = upper ? sums[i] : sums[i + N];
      sums[i] = (upper ? sums[i + N] : sums[i]) + __shfl_xor_sync(0xffffffffu, given_on, bit);
    }
  }

  // Of 3 slices of terms (12 where there are 3072): a warp multiplies a slice of up to MINE columns.
  template <Kind kind>
  __device__ void product(int phase) {
    constexpr int LENGTH = terms(kind), SLICES = LENGTH / SLICE, GROUPS = WARPS / SLICES;
    constexpr bool normed = kind == QKV || kind == EXPAND;
    constexpr int MINE = kind == PROJECTION ? 2 : MOST_ROWS / 4;  // columns of a warp at most
    const int slice = warp % SLICES, group = warp / SLICES;
    const int begin = shared.begin[kind], rows = shared.end[kind] - begin, step = shared.step[kind];
    const int pieces = 1 + (rows > step) + (rows > 2 * step) + (rows > 3 * step);
    int from[MINE];
#pragma unroll
    for (int i = 0; i < MINE; ++i) {
      const int row = group + GROUPS * i;
      from[i] = column(row < rows ? row : 0, step, LENGTH) + slice * SLICE + lane * PER;
    }
    const float* biases =
        a.extras + phase / 5 * EXTRAS + (kind == PROJECTION ? 2304 : kind == EXPAND ? 3072 : kind == CONTRACT ? 6144 : 0);
    float bias = 0.0f;
    if (thread < rows)
      asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(bias) : "l"(biases + begin + thread) : "memory");
    float x[LOADS][PER], scale[LOADS][PER], offset[LOADS][PER];
    if constexpr (normed)
#pragma unroll
      for (int i = 0; i < LOADS; ++i)
#pragma unroll
        for (int j = 0; j < PER; j += 4) {
          const float* at = norm_of(phase, kind) + slice * SLICE + (i * 32 + lane) * PER + j;
          const float4 v = load_early(at), w = load_early(at + WIDTH);
          scale[i][j] = v.x, scale[i][j + 1] = v.y, scale[i][j + 2] = v.z, scale[i][j + 3] = v.w;
          offset[i][j] = w.x, offset[i][j + 1] = w.y, offset[i][j + 2] = w.z, offset[i][j + 3] = w.w;
        }
    if (a.early) await_weights(pieces);

    if constexpr (SLICES == 12) {
      await(phase - 1);
      int pairs[LOADS * PER / 2];
      float2 found[LOADS * PER / 2];
#pragma unroll
      for (int i = 0; i < LOADS * PER / 2; ++i)
        pairs[i] = (slice * SLICE + (2 * i / PER * 32 + lane) * PER) / 2 + i % (PER / 2);
      get(phase - 1, pairs, found);
      time(kind, 0);
#pragma unroll
      for (int i = 0; i < LOADS * PER / 2; ++i)
        x[2 * i / PER][2 * i % PER] = found[i].x, x[2 * i / PER][2 * i % PER + 1] = found[i].y;
    } else {
      float2 moments = make_float2(0.0f, 1.0f);
      if constexpr (normed) {
        moments = residual<kind>(phase);
      } else {
        await(phase - 1);
        const float2 v = get(phase - 1, thread);
        time(kind, 0);
        reinterpret_cast<float2*>(shared.x + WIDTH)[thread] = v;
        consumers_sync();
      }
#pragma unroll
      for (int i = 0; i < LOADS; ++i)
#pragma unroll
        for (int j = 0; j < PER; j += 4) {
          const float4 v = *reinterpret_cast<const float4*>(shared.x + (normed ? 0 : WIDTH) + slice * SLICE +
                                                            (i * 32 + lane) * PER + j);
          x[i][j] = v.x, x[i][j + 1] = v.y, x[i][j + 2] = v.z, x[i][j + 3] = v.w;
        }
      if constexpr (normed)
#pragma unroll
        for (int i = 0; i < LOADS; ++i)
#pragma unroll
          for (int j = 0; j < PER; ++j) x[i][j] = (x[i][j] - moments.x) * moments.y * scale[i][j] + offset[i][j];
    }
    if (!a.early) {
      if (thread == 0) shared.reached = word * PHASES + phase + 1;
      await_weights(pieces);
    }
    time(kind, 1);

    float sums[8] = {};
#pragma unroll
    for (int i = 0; i < MINE; ++i)
#pragma unroll
      for (int c = 0; c < LOADS; ++c) {
        float w[PER];
        unpack(ring + from[i] + c * 32 * PER, w);
#pragma unroll
        for (int j = 0; j < PER; ++j) sums[i] += w[j] * x[c][j];
      }
    release(pieces);
    if constexpr (MINE == 2) {
#pragma unroll
      for (int i = 0; i < MINE; ++i) {
        sums[i] = sum_of_warp(sums[i]);
        if (lane == 0) shared.partial[phase % 2][slice][group + GROUPS * i] = sums[i];
      }
    } else {
      // Eight sums of 32 lanes: four lanes have one each in the end.
      exchange<4>(sums, 16), exchange<2>(sums, 8), exchange<1>(sums, 4);
      sums[0] += __shfl_xor_sync(0xffffffffu, sums[0], 2);
      sums[0] += __shfl_xor_sync(0xffffffffu, sums[0], 1);
      const int which = (lane >> 4 & 1) * 4 + (lane >> 3 & 1) * 2 + (lane >> 2 & 1);
      if (lane % 4 == 0 && which < MINE) shared.partial[phase % 2][slice][group + GROUPS * which] = sums[0];
    }
    time(kind, 2);
    consumers_sync();
    if (thread < rows) {
      float value = bias;
#pragma unroll
      for (int i = 0; i < SLICES; ++i) value += shared.partial[phase % 2][i][thread];
      if (kind == EXPAND)
        value *= __fdividef(1.0f, 1.0f + __expf(-1.5957691216f * (value + 0.044715f * value * value * value)));
      give(phase, begin + thread, value);
    }
    given(phase);
    time(kind, 3);
  }

  // A warp multiplies whole columns, two at a time.
  __device__ void logits(int phase) {
    constexpr int STEP = L::SLOT / L::ROW, CHUNKS = WIDTH / PER / 32;
    const int begin = shared.begin[LOGITS], end = shared.end[LOGITS];
    const float2 moments = residual<LOGITS>(phase);
    if (!a.early && thread == 0) shared.reached = word * PHASES + phase + 1;
    const float* norm = norm_of(phase, LOGITS);
    float x[CHUNKS][PER];
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i)
#pragma unroll
      for (int j = 0; j < PER; ++j) {
        const int at = (i * 32 + lane) * PER + j;
        x[i][j] = (shared.x[at] - moments.x) * moments.y * __ldg(norm + at) + __ldg(norm + WIDTH + at);
      }
    time(LOGITS, 1);
    float most = -INFINITY;
    int number = VOCABULARY;
    for (int first = begin; first < end; first += 2 * WARPS) {
      const int rows = min(2 * WARPS, end - first), pieces = (rows + STEP - 1) / STEP;
      await_weights(pieces);
      float sums[2] = {};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = warp + i * WARPS;
        const T* from = ring + column(row < rows ? row : 0, STEP, WIDTH) + lane * PER;
#pragma unroll
        for (int c = 0; c < CHUNKS; ++c) {
          float w[PER];
          unpack(from + c * 32 * PER, w);
#pragma unroll
          for (int j = 0; j < PER; ++j) sums[i] += w[j] * x[c][j];
        }
      }
      release(pieces);
      sums[0] = sum_of_warp(sums[0]), sums[1] = sum_of_warp(sums[1]);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = warp + i * WARPS;
        if (row >= rows) continue;
        if (lane == 0) a.logits[first + row] = sums[i];
        if (sums[i] > most) most = sums[i], number = first + row;
      }
    }
    time(LOGITS, 2);
    const int2 best = best_of_block(most, number);
    if (thread == 0)
      asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(a.best + blockIdx.x * 16), "r"(best.x),
                   "r"(tag()), "r"(best.y)
                   : "memory");
    given(phase);
    time(LOGITS, 3);
  }

  __device__ void attention(int phase) {
    const int layer = phase / 5, head = blockIdx.x % HEADS, position = a.position + word;
    await(phase - 1);
    if (thread < 3 * HEAD / 2) {
      const int which = thread / (HEAD / 2), pair = thread % (HEAD / 2);
      const float2 v = get(phase - 1, (which * WIDTH + head * HEAD) / 2 + pair);
      time(ATTENTION, 0);
      shared.heads[which][2 * pair] = v.x, shared.heads[which][2 * pair + 1] = v.y;
      if (which > 0)
        for (int i = 0; i < 2; ++i) {
          const int at = position * HEAD + 2 * pair + i;
          const T value = rounded<T>(i ? v.y : v.x);
          cached[(which - 1) * CACHE * HEAD + at] = value;
          static_cast<T*>(a.cache)[((layer * 2 + which - 1) * HEADS + head) * CACHE * HEAD + at] = value;
        }
    }
    consumers_sync();
    {
      const int key = thread / 4, part = thread % 4;
      float score = 0.0f;
#pragma unroll
      for (int c = 0; c < HEAD / 4 / PER; ++c) {
        float k[PER];
        const int at = (part + 4 * c) * PER;
        unpack(cached + key * HEAD + at, k);
#pragma unroll
        for (int j = 0; j < PER; ++j) score += k[j] * shared.heads[0][at + j];
      }
      score += __shfl_xor_sync(0xffffffffu, score, 1);
      score += __shfl_xor_sync(0xffffffffu, score, 2);
      if (part == 0) shared.scores[key] = key <= position ? score * 0.125f : -INFINITY;
    }
    consumers_sync();
    float p[3], most = -INFINITY, sum = 0.0f, result = 0.0f;
#pragma unroll
    for (int i = 0; i < 3; ++i) p[i] = shared.scores[lane + 32 * i], most = fmaxf(most, p[i]);
    for (int step = 16; step; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
#pragma unroll
    for (int i = 0; i < 3; ++i) p[i] = __expf(p[i] - most), sum += p[i];
    sum = sum_of_warp(sum);
    // 16 keys and 32 elements of the head to a warp.
    const int part = warp / 2, element = warp % 2 * 32 + lane;
    const float mine = part < 2 ? p[0] : part < 4 ? p[1] : p[2];
#pragma unroll
    for (int i = 0; i < 16; ++i)
      result += __shfl_sync(0xffffffffu, mine, part % 2 * 16 + i) *
                float(cached[(CACHE + part * 16 + i) * HEAD + element]);
    shared.outputs[part][element] = result;
    time(ATTENTION, 2);
    consumers_sync();
    if (thread < HEAD) {
      float value = 0.0f;
#pragma unroll
      for (int i = 0; i < WARPS / 2; ++i) value += shared.outputs[i][thread];
      give(phase, head * HEAD + thread, __fdividef(value, sum));
    }
    given(phase);
    time(ATTENTION, 3);
  }

  __device__ void consume(bool has_cache) {
    if (has_cache) await_barrier(shared.cached, 0);
    now = unsigned(clock());
    for (word = 0; word < a.words; ++word)
      for (int phase = a.first; phase < a.last; ++phase) {
        const int kind = kind_of(phase);
        if (kind == QKV) product<QKV>(phase);
        else if (kind == PROJECTION) product<PROJECTION>(phase);
        else if (kind == EXPAND) product<EXPAND>(phase);
        else if (kind == CONTRACT) product<CONTRACT>(phase);
        else if (kind == LOGITS) logits(phase);
        else if (attends(phase)) attention(phase);
        else if (M == GRID) await(phase - 1), given(phase);
      }
    if (thread == 0 && a.trace)
      for (int kind = 0; kind < KINDS; ++kind)
        for (int part = 0; part < PARTS; ++part)
          a.trace[(blockIdx.x * KINDS + kind) * PARTS + part] = shared.spent[kind][part];
  }
};

template <class T, Method M>
__global__ void __launch_bounds__(THREADS, M == LAUNCHES ? 2 : 1) decode(const __grid_constant__ Arguments a) {
  using L = Layout<T>;
  extern __shared__ __align__(128) char memory[];
  __shared__ Shared shared;
  const bool alone = a.last - a.first == 1;
  const bool attends = alone ? kind_of(a.first) == ATTENTION && Decoder<T, M>::attends(a.first)
                             : blockIdx.x < HEADS * LAYERS;
  if constexpr (M == LAUNCHES) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  const int slots = min(MOST_SLOTS, (a.bytes - (attends ? L::CACHED : 0)) / L::SLOT);
  Decoder<T, M> decoder(a, shared, memory, slots);
  if (threadIdx.x == 0) {
    for (int i = 0; i < MOST_SLOTS; ++i) {
      barrier_init(shared_address(&shared.full[i]), 1);
      barrier_init(shared_address(&shared.empty[i]), WARPS);
    }
    barrier_init(shared_address(&shared.cached), 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    shared.reached = 0;
    for (int kind = 0; kind < KINDS; ++kind) {
      shared.begin[kind] = int(static_cast<long long>(columns(kind)) * blockIdx.x / gridDim.x);
      shared.end[kind] = int(static_cast<long long>(columns(kind)) * (blockIdx.x + 1) / gridDim.x);
      shared.step[kind] = L::columns_of_slot(kind, gridDim.x);
      for (int part = 0; part < PARTS; ++part) shared.spent[kind][part] = 0;
    }
  }
  __syncthreads();
  if (threadIdx.x == CONSUMERS) {
    if (attends) {
      const int layer = alone ? a.first / 5 : int(blockIdx.x) / HEADS, head = blockIdx.x % HEADS;
      expect_bytes(shared_address(&shared.cached), L::CACHED);
      for (int i = 0; i < 2; ++i)
        copy(shared_address(decoder.cached) + i * L::CACHED / 2,
             static_cast<const T*>(a.cache) + (size_t(layer) * 2 + i) * HEADS * CACHE * HEAD + size_t(head) * CACHE * HEAD,
             L::CACHED / 2, shared_address(&shared.cached));
    }
    decoder.produce();
  }
  if (threadIdx.x < CONSUMERS) {
    if constexpr (M == LAUNCHES) asm volatile("griddepcontrol.wait;" ::: "memory");
    decoder.consume(attends);
  }
}
