// What blocks hand each other, and the ring to which one thread of a block copies its weights.
#pragma once

#include "decoder_kernel.cuh"

template <class T, Method M>
struct Block {
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

  __device__ Block(const Arguments& a, Shared& shared, char* memory, int slots)
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
};
