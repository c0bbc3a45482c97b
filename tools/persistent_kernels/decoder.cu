// A word of GPT-2 (6 layers of 768, batch 1) as a chain of matrix-vector products: as a launch for each of them, and as
// one persistent kernel whose blocks copy the weights that come next to a ring in shared memory while they wait for what
// other blocks compute. See decoder.py, which draws the weights, compares with float64, and prints what this measures.
//
//     decoder DIRECTORY check|time VARIANT...

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

constexpr int WIDTH = 768, HEADS = 12, HEAD = 64, LAYERS = 6, VOCABULARY = 50257, CACHE = 96;
constexpr int WARPS = 12, CONSUMERS = WARPS * 32, THREADS = CONSUMERS + 32;
constexpr int MOST_SLOTS = 12, MOST_ROWS = 24;  // columns of a block in one phase, but the last
constexpr int SPINS = 1 << 20;
constexpr int EXTRAS = 2304 + 768 + 3072 + 768 + 4 * 768;  // of a layer: biases, and a scale and an offset of two norms

enum Kind { QKV, ATTENTION, PROJECTION, EXPAND, CONTRACT, LOGITS, KINDS };
constexpr int PHASES = 5 * LAYERS + 1, PARTS = 4;  // parts of a phase that are timed

#define CHECK(call)                                                                             \
  do {                                                                                          \
    cudaError_t status = (call);                                                                \
    if (status != cudaSuccess) {                                                                \
      std::fprintf(stderr, "%s:%d %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status)); \
      std::exit(1);                                                                             \
    }                                                                                           \
  } while (0)

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

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
__device__ inline void barrier_init(uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ inline void expect_bytes(uint32_t barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline bool arrived(uint32_t barrier, unsigned parity) {
  uint32_t result;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(result)
               : "r"(barrier), "r"(parity)
               : "memory");
  return result;
}
__device__ inline void copy(uint32_t to, const void* from, unsigned bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
__device__ inline void consumers_sync() { asm volatile("bar.sync 1, %0;" ::"n"(CONSUMERS) : "memory"); }
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
__device__ inline void store_packet(void* pointer, unsigned value, unsigned number) {
  asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(pointer), "r"(value), "r"(number) : "memory");
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

__device__ inline float sum_of_warp(float x) {
#pragma unroll
  for (int step = 16; step; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
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

template <class T, Method M>
struct Decoder {
  static constexpr int PER = 16 / int(sizeof(T));   // elements of a load
  static constexpr int SLICE = 256, LOADS = SLICE / 32 / PER;  // terms of a warp; loads of a lane
  using L = Layout<T>;
  const Arguments& a;
  Shared& shared;
  T* const ring;
  T* const cached;
  const int slots, thread, warp, lane, copy_read;
  int slot = 0;
  unsigned parity = 0;  // of the slot
  int word = 0;
  bool dead = false;
  float kept[2] = {};  // two elements of the residual
  unsigned now = 0;

  __device__ Decoder(const Arguments& a, Shared& shared, char* memory, int slots)
      : a(a), shared(shared), ring(reinterpret_cast<T*>(memory)),
        cached(reinterpret_cast<T*>(memory + slots * L::SLOT)), slots(slots), thread(threadIdx.x),
        warp(threadIdx.x / 32), lane(threadIdx.x % 32), copy_read(blockIdx.x % a.copies) {}

  __device__ void failed() { dead = true, atomicExch(a.error, 1); }

  __device__ void await_barrier(uint64_t& barrier, unsigned wanted) {
    int spins = 0;
    while (!dead && !arrived(shared_address(&barrier), wanted))
      if (++spins > SPINS) failed();
  }

  __device__ unsigned tag() const { return a.turn + word + 1; }
  __device__ static bool attends(int phase) { return int(blockIdx.x) / HEADS == phase / 5 && blockIdx.x < HEADS * LAYERS; }
  __device__ char* vector(int phase, int copy) const {
    return a.vectors + (size_t(copy) * PHASES + phase) * 4 * WIDTH * 8;
  }
  __device__ char* vector(int phase) const { return vector(phase, M == PACKETS ? copy_read : 0); }

  __device__ void time(int kind, int part) {
    const unsigned then = unsigned(clock());
    if (thread == 0) shared.spent[kind][part] += then - now;
    now = then;
  }

  // ---- what blocks hand each other ----

  // Until all of a phase is there; `phase` -1 is the last one of the word before.
  __device__ void await(int phase) {
    if constexpr (M == GRID || M == COUNTERS) {
      if (thread == 0) {
        const int kind = phase < 0 ? int(LOGITS) : kind_of(phase);
        const unsigned adders = kind == ATTENTION ? HEADS : gridDim.x;
        const unsigned* counter = M == GRID ? a.counters : a.counters + 32 * (phase < 0 ? PHASES - 1 : phase);
        const unsigned wanted =
            M == GRID ? ((a.turn + word) * PHASES + phase + 1) * gridDim.x : (tag() - (phase < 0 ? 1 : 0)) * adders;
        int spins = 0;
        while (!dead && int(load_acquire(counter) - wanted) < 0)
          if (++spins > SPINS) failed();
      }
      consumers_sync();
    }
  }

  // Pairs of elements of what a phase gave.
  template <int N>
  __device__ void get(int phase, const int (&pairs)[N], float2 (&found)[N]) {
    if constexpr (M != PACKETS) {
#pragma unroll
      for (int i = 0; i < N; ++i) found[i] = __ldcg(reinterpret_cast<const float2*>(vector(phase)) + pairs[i]);
    } else {
      uint4 v[N];
      bool missing;
      int spins = 0;
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = load_packet(vector(phase) + pairs[i] * 16);
      do {
        missing = false;
        if (a.pause && spins) __nanosleep(a.pause);
#pragma unroll
        for (int i = 0; i < N; ++i)
          if (v[i].y != tag() || v[i].w != tag()) v[i] = load_packet(vector(phase) + pairs[i] * 16), missing = true;
        if (++spins > SPINS) failed();
      } while (missing && !dead);
#pragma unroll
      for (int i = 0; i < N; ++i) found[i] = make_float2(__uint_as_float(v[i].x), __uint_as_float(v[i].z));
    }
  }

  __device__ float2 get(int phase, int pair) {
    const int pairs[1] = {pair};
    float2 found[1];
    get(phase, pairs, found);
    return found[0];
  }

  __device__ void give(int phase, int element, float value) {
    if constexpr (M == PACKETS)
      for (int i = 0; i < a.copies; ++i)
        store_packet(vector(phase, i) + element * 8, __float_as_uint(value), tag());
    else reinterpret_cast<float*>(vector(phase))[element] = value;
  }

  // All of this block's part was given.
  __device__ void given(int phase) {
    if constexpr (M == GRID || M == COUNTERS) {
      consumers_sync();
      if (thread == 0) {
        __threadfence();
        atomicAdd(M == GRID ? a.counters : a.counters + 32 * phase, 1u);
      }
    }
  }

  // ---- the ring ----

  __device__ void advance(int& at, unsigned& of, int count) const {
    at += count;
    if (at >= slots) at -= slots, of ^= 1;
  }

  __device__ void produce() {
    bool first = true;
    for (word = 0; word < a.words; ++word)
      for (int phase = a.first; phase < a.last; ++phase) {
        const int kind = kind_of(phase);
        if (kind == ATTENTION) continue;
        for (int spins = 0; !a.early && !dead && shared.reached < word * PHASES + phase + 1;)
          if (++spins > SPINS) failed();
        const int end = shared.end[kind], step = shared.step[kind], bytes_of_row = terms(kind) * int(sizeof(T));
        const char* from = reinterpret_cast<const char*>(static_cast<const T*>(a.weights) + weights_at(phase));
        for (int i = shared.begin[kind]; i < end; i += step) {
          const unsigned bytes = min(step, end - i) * bytes_of_row;
          if (!first) await_barrier(shared.empty[slot], parity ^ 1);
          expect_bytes(shared_address(&shared.full[slot]), bytes);
          copy(shared_address(ring) + slot * L::SLOT, from + size_t(i) * bytes_of_row, bytes,
               shared_address(&shared.full[slot]));
          advance(slot, parity, 1);
          if (slot == 0) first = false;
        }
      }
  }

  // Until the next slots are full.
  __device__ void await_weights(int pieces) {
    int at = slot;
    unsigned of = parity;
    for (int i = 0; i < pieces; ++i) {
      await_barrier(shared.full[at], of);
      advance(at, of, 1);
    }
  }

  // All of this warp's loads from the next slots were made.
  __device__ void release(int pieces) {
    __syncwarp();
    int at = slot;
    unsigned of = parity;
    advance(at, of, lane);
    if (lane < pieces) arrive(shared_address(&shared.empty[at]));
    advance(slot, parity, pieces);
  }

  // Where in the ring a column of the next slots is.
  __device__ int column(int row, int step, int length) const {
    int at = slot;
    unsigned of = 0;
    const int piece = (row >= step) + (row >= 2 * step) + (row >= 3 * step);
    advance(at, of, piece);
    return at * (L::SLOT / int(sizeof(T))) + (row - piece * step) * length;
  }

  // ---- inputs ----

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

struct Variant {
  std::string name;
  void (*kernel)(Arguments);
  Method method;
  bool half, early;
  int words;   // of a launch
  int copies;  // of what is handed on
  int pause;
};

template <class T, Method M>
void add(std::vector<Variant>& all, const char* method) {
  const std::string name = std::string(sizeof(T) == 4 ? "float32:" : "bfloat16:") + method;
  auto with = [&](const char* form, bool early, int words, int copies = 1, int pause = 0) {
    all.push_back({name + form, decode<T, M>, M, sizeof(T) == 2, early, words, copies, pause});
  };
  with(M == LAUNCHES ? "" : ":word", true, 1);
  if (M != LAUNCHES) with(":loop", true, CACHE);
  if (M == GRID) with("_late:word", false, 1);
  if (M == PACKETS) with("_late:loop", false, CACHE);
  if (M == PACKETS) with("_4:loop", true, CACHE, 4), with("_12:loop", true, CACHE, 12), with("_4:word", true, 1, 4);
  if (M == PACKETS) with("_4_pause:loop", true, CACHE, 4, 40), with("_pause:loop", true, CACHE, 1, 40);
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  add<float, LAUNCHES>(all, "launches");
  add<float, GRID>(all, "grid");
  add<float, COUNTERS>(all, "counters");
  add<float, PACKETS>(all, "packets");
  add<__nv_bfloat16, LAUNCHES>(all, "launches");
  add<__nv_bfloat16, GRID>(all, "grid");
  add<__nv_bfloat16, COUNTERS>(all, "counters");
  add<__nv_bfloat16, PACKETS>(all, "packets");
  return all;
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

void* device_as(const std::vector<float>& values, bool half) {
  if (!half) return device(values.size(), values.data());
  std::vector<__nv_bfloat16> halves(values.size());
  for (size_t i = 0; i < values.size(); ++i) halves[i] = __float2bfloat16_rn(values[i]);
  return device(halves.size(), halves.data());
}

// Weights of both types, which all variants read.
struct Weights {
  explicit Weights(const std::string& directory) {
    auto weights = read(directory + "/weights.bin"), given = read(directory + "/extras.bin");
    cache = read(directory + "/cache.bin");
    for (bool half : {false, true}) of_type[half] = device_as(weights, half);
    extras = device(given.size(), given.data());
  }
  void* of_type[2];
  float* extras;
  std::vector<float> cache;
};

class Runner {
 public:
  Runner(const Variant& v, const Weights& weights, cudaStream_t stream) : variant_(v), stream_(stream) {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    blocks_ = properties.multiProcessorCount;
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, v.kernel));
    most_bytes_ = int(properties.sharedMemPerBlockOptin - attributes.sharedSizeBytes) / 128 * 128;
    CHECK(cudaFuncSetAttribute(v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most_bytes_));
    registers_ = attributes.numRegs, spilled_ = attributes.localSizeBytes;
    a_.weights = weights.of_type[v.half];
    a_.extras = weights.extras;
    a_.cache = device_as(weights.cache, v.half);
    a_.vectors = device<char>(size_t(v.copies) * PHASES * 4 * WIDTH * 8);
    a_.copies = v.copies, a_.pause = v.pause;
    a_.best = device<char>(4096);
    a_.logits = device<float>(VOCABULARY);
    a_.residual = device<float>(2 * WIDTH);
    a_.tokens = device<int>(CACHE);
    a_.counters = device<unsigned>(32 * PHASES);
    a_.error = device<int>(1);
    a_.trace = device<unsigned>(size_t(blocks_) * KINDS * PARTS);
    a_.early = v.early;
    a_.bytes = most_bytes_;
    a_.first = 0, a_.last = PHASES;
  }

  // Words at `position` and behind, enqueued.
  void words(int position, int count) {
    if (variant_.method == LAUNCHES) {
      if (graph_ && count == CACHE) {
        CHECK(cudaGraphLaunch(graph_, stream_));
        return;
      }
      for (int i = 0; i < count; ++i)
        for (int phase = 0; phase < PHASES; ++phase) {
          const bool attention = kind_of(phase) == ATTENTION;
          a_.position = position + i, a_.words = 1, a_.first = phase, a_.last = phase + 1;
          a_.bytes = attention ? (variant_.half ? Layout<__nv_bfloat16>::CACHED : Layout<float>::CACHED)
                     : kind_of(phase) == LOGITS ? most_bytes_ / 2
                                                : 73728 + 1024;
          launch(attention ? HEADS * (phase / 5 + 1) : blocks_, a_.bytes);
        }
      return;
    }
    const int step = std::min(variant_.words, count);
    for (int i = 0; i < count; i += step) {
      a_.position = position + i, a_.words = step;
      launch(blocks_, most_bytes_);
      a_.turn += step;
    }
  }

  void capture() {
    if (variant_.method != LAUNCHES) return;
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    words(0, CACHE);
    CHECK(cudaStreamEndCapture(stream_, &graph));
    CHECK(cudaGraphInstantiate(&graph_, graph, 0));
  }

  void finish() {
    CHECK(cudaStreamSynchronize(stream_));
    int error = 0;
    CHECK(cudaMemcpy(&error, a_.error, sizeof error, cudaMemcpyDeviceToHost));
    if (error) std::printf("%s: a wait did not end\n", variant_.name.c_str()), std::exit(2);
  }

  void write(const std::string& directory) {
    std::vector<float> logits(VOCABULARY);
    std::vector<int> tokens(CACHE);
    CHECK(cudaMemcpy(logits.data(), a_.logits, logits.size() * 4, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(tokens.data(), a_.tokens, tokens.size() * 4, cudaMemcpyDeviceToHost));
    std::ofstream(directory + "/" + variant_.name + ".logits", std::ios::binary)
        .write(reinterpret_cast<const char*>(logits.data()), std::streamsize(logits.size() * 4));
    std::ofstream(directory + "/" + variant_.name + ".tokens", std::ios::binary)
        .write(reinterpret_cast<const char*>(tokens.data()), std::streamsize(tokens.size() * 4));
  }

  // Cycles of a word in each part of each kind of phase, of blocks with and without an attention.
  std::vector<double> trace(int block) {
    std::vector<unsigned> values(KINDS * PARTS);
    CHECK(cudaMemcpy(values.data(), a_.trace + size_t(block) * KINDS * PARTS, values.size() * sizeof(unsigned),
                     cudaMemcpyDeviceToHost));
    std::vector<double> cycles;
    for (auto v : values) cycles.push_back(double(v) / std::max(variant_.words, 1));
    return cycles;
  }

  int registers() const { return registers_; }
  size_t spilled() const { return spilled_; }

 private:
  void launch(int blocks, int bytes) {
    cudaLaunchAttribute attribute[1];
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = bytes;
    config.stream = stream_;
    config.attrs = attribute;
    config.numAttrs = 1;
    if (variant_.method == LAUNCHES) {
      attribute->id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attribute->val.programmaticStreamSerializationAllowed = 1;
    } else {
      attribute->id = cudaLaunchAttributeCooperative;
      attribute->val.cooperative = 1;
    }
    CHECK(cudaLaunchKernelEx(&config, variant_.kernel, a_));
  }

  Variant variant_;
  cudaStream_t stream_;
  Arguments a_ = {};
  cudaGraphExec_t graph_ = nullptr;
  int blocks_, most_bytes_, registers_;
  size_t spilled_;
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
  const Weights weights(directory);
  std::vector<Variant> chosen;
  for (int i = 3; i < argc; ++i)
    for (const auto& v : all)
      if (v.name == argv[i]) chosen.push_back(v);
  std::vector<Runner> runners;
  for (const auto& v : chosen) runners.emplace_back(v, weights, stream);

  if (!timed) {
    for (size_t i = 0; i < runners.size(); ++i) {
      runners[i].words(CACHE - 4, 4);
      runners[i].finish();
      runners[i].write(directory);
      std::printf("%s registers %d spilled %zu\n", chosen[i].name.c_str(), runners[i].registers(), runners[i].spilled());
    }
    return 0;
  }
  constexpr int TURNS = 15;
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (auto& runner : runners) runner.capture();
  std::vector<std::vector<float>> times(runners.size());
  for (int turn = -2; turn < TURNS; ++turn)
    for (size_t i = 0; i < runners.size(); ++i) {
      CHECK(cudaEventRecord(begin, stream));
      runners[i].words(0, CACHE);
      CHECK(cudaEventRecord(end, stream));
      runners[i].finish();
      float ms;
      CHECK(cudaEventElapsedTime(&ms, begin, end));
      if (turn >= 0) times[i].push_back(ms * 1000.0f / CACHE);
    }
  for (size_t i = 0; i < runners.size(); ++i) {
    auto& t = times[i];
    std::sort(t.begin(), t.end());
    std::printf("%s,%.2f,%.2f,%.2f,0", chosen[i].name.c_str(), t[t.size() / 2], t[t.size() / 4], t[t.size() * 3 / 4]);
    for (int block : {30, 100})
      for (double cycles : runners[i].trace(block)) std::printf(",%.0f", cycles);
    std::printf("\n");
  }
  return 0;
}
