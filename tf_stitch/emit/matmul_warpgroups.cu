// A matmul of half types by wgmma (PTX ISA, sm_90a), with operands and results as matmul.cu has them. A warpgroup has 64
// rows of the tile and all of its columns, GROUPS of them share a tile. Operands are multiplied from shared memory, where
// they lie in lines of 128 bytes whose 16-byte parts are exchanged by the line's number modulo 8: tensor cores and copies
// access all banks. A stage has 64 terms.
//
// Memory has room for it to begin at a multiple of 1024 bytes, as the exchange of parts goes by addresses.
//
// Of STAGES one is multiplied, the one before may be by a warpgroup that is behind, and the others are on their way.
//
// C: as of matmul.cu, and Multiply; PARTS and SHARERS are 1.

template <class C> struct tfs_matmul_warpgroups {
  using E = typename C::Element;
  using T = typename E::Storage;
  using A = typename C::A;
  using B = typename C::B;
  static constexpr int TERMS = 64, LINE = 32, LINES = 8, STEP = 16;  // LINE: words; LINES: that are exchanged; STEP: terms
  static constexpr int GROUPS = C::ROWS / 64, THREADS = 128 * GROUPS;
  static constexpr int STEPS = (C::K + TERMS - 1) / TERMS, UNDER_WAY = C::STAGES - 2;
  using Results = tfs_result_tile<C>;
  using Multiply = typename C::Multiply;  // c += a b of 64 rows, all columns and STEP terms

  // Lines along terms have the 64 of a stage; lines of one term are cut into parts of 64 rows or columns, one behind the
  // other.
  template <class O> struct Exchanged {
    static constexpr int PART = (O::ALONG_TERMS ? O::EXTENT : TERMS) * LINE;
    static constexpr int WORDS = O::ALONG_TERMS ? PART : O::EXTENT / TERMS * PART;
    static __device__ __forceinline__ T* at(uint32_t* tile, int line, int element) {
      uint32_t* its = tile + element / TERMS * PART + line * LINE + (element % TERMS / 8 ^ line % LINES) * 4;
      return reinterpret_cast<T*>(its) + element % 8;
    }
    // As an instruction takes it, of `first` and on beside terms, and of STEP terms at `term`.
    static __device__ __forceinline__ tfs_shared_matrix matrix(const uint32_t* tile, int first, int term) {
      constexpr int EIGHT = LINES * LINE;
      if constexpr (O::ALONG_TERMS) return tfs_shared_matrix(tile, 0, EIGHT) + (first * LINE + term / 2);
      else return tfs_shared_matrix(tile, PART, EIGHT) + (first / TERMS * PART + term * LINE);
    }
  };
  template <class O> using Tile = tfs_operand_tile<C, O, Exchanged<O>, THREADS, TERMS, TERMS>;
  static constexpr int STAGE = Tile<A>::WORDS + Tile<B>::WORDS;

  static __device__ __forceinline__ uint32_t* aligned(uint32_t* memory) {
    return memory + (0 - (uint32_t)tfs_shared_address(memory)) % 1024 / 4;
  }
  // Begins to copy b's first stages. They belong to the first group that run waits for.
  static __device__ __forceinline__ void prefetch(int thread, int block, const T* b, uint32_t* memory) {
    const Results own(block);
    b += (long long)own.matrix * B::MATRIX_STEP;
    memory = aligned(memory);
#pragma unroll 1
    for (int step = 0; step < UNDER_WAY && step < STEPS; ++step)
      Tile<B>::copy(memory + step * STAGE + Tile<A>::WORDS, thread, b, own.column, step * TERMS);
  }

  template <class LoadA, class LoadB, class Finish>
  static __device__ __forceinline__ void run(int thread, int block, const T* a, const T* b, uint32_t* memory,
                                             const LoadA& load_a, const LoadB& load_b, const Finish& finish) {
    const Results own(block);
    if constexpr (A::PLAIN) a += (long long)own.matrix * A::MATRIX_STEP;
    if constexpr (B::PLAIN) b += (long long)own.matrix * B::MATRIX_STEP;
    memory = aligned(memory);
    Tile<A> tile_a;
    Tile<B> tile_b;
    const auto stage = [&](int step) { return memory + step % C::STAGES * STAGE; };
    const auto begin = [&](int step, bool has_b) {
      if constexpr (A::PLAIN) Tile<A>::copy(stage(step), thread, a, own.row, step * TERMS);
      else tile_a.compute(thread, own.matrix, own.row, step * TERMS, load_a);
      if (has_b) return;
      if constexpr (B::PLAIN) Tile<B>::copy(stage(step) + Tile<A>::WORDS, thread, b, own.column, step * TERMS);
      else tile_b.compute(thread, own.matrix, own.column, step * TERMS, load_b);
    };
    const auto end = [&](int step) {
      if constexpr (!A::PLAIN) tile_a.write(stage(step), thread);
      if constexpr (!B::PLAIN) tile_b.write(stage(step) + Tile<A>::WORDS, thread);
    };
#pragma unroll 1
    for (int step = 0; step < UNDER_WAY; ++step) {
      if (step < STEPS) {
        begin(step, C::AHEAD);
        end(step);
      }
      tfs_copy_commit();
    }
    const int group = thread / 128;
    float c[C::COLUMNS / 2];
#pragma unroll
    for (int i = 0; i < C::COLUMNS / 2; ++i) c[i] = 0.0f;
#pragma unroll 1
    for (int step = 0; step < STEPS; ++step) {
      tfs_copy_wait<UNDER_WAY - 1>();
      tfs_shared_for_tensor_cores();
      C::Barrier::wait();  // this stage is there, and nobody reads the one before the last, which the next copies go to
      const uint32_t* its_a = stage(step);
      const uint32_t* its_b = its_a + Tile<A>::WORDS;
      tfs_warpgroup_begin();
#pragma unroll
      for (int term = 0; term < TERMS; term += STEP)
        Multiply::template run<!A::ALONG_TERMS, !B::ALONG_TERMS>(c, Exchanged<A>::matrix(its_a, 64 * group, term),
                                                                 Exchanged<B>::matrix(its_b, 0, term));
      tfs_warpgroup_commit();
      const int next = step + UNDER_WAY;
      if (next < STEPS) begin(next, false);
      tfs_copy_commit();
      tfs_warpgroup_wait<1>();
      if (next < STEPS) end(next);
    }
    tfs_warpgroup_wait<0>();
    tfs_copy_wait<0>();
    C::Barrier::wait();  // nobody reads operands any more
    float* results = reinterpret_cast<float*>(memory);
    const int line = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
#pragma unroll
    for (int j = 0; j < C::COLUMNS / 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<tfs_vector<float, 2>*>(results + (line + 8 * half) * Results::LINE + 8 * j + column) =
            {{c[4 * j + 2 * half], c[4 * j + 2 * half + 1]}};
    C::Barrier::wait();
    own.template finish_all<THREADS, 1>(thread, results, finish);
  }
};
