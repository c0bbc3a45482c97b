// A matmul of half types by wgmma whose operands both lie in memory. Two blocks of a cluster have tiles beside each other,
// and each brings half of the operand that both need to the shared memory of both: what a processor gets from the last
// cache bounds large matmuls. A block goes on to further tiles, which two warpgroups have in turns: while one finishes its
// results the other multiplies. One warp more copies boxes of stages ahead of both.
//
// C: as of matmul_warpgroups.cu; BLOCKS; ROWS_SHARED: whether both blocks have the same rows, and bring a together; else b.

template <class C> struct tfs_matmul_clusters {
  using E = typename C::Element;
  using T = typename E::Storage;
  using A = typename C::A;
  using B = typename C::B;
  using Results = tfs_result_tile<C>;
  using Warpgroups = tfs_matmul_warpgroups<C>;
  using Multiply = typename C::Multiply;
  template <class O> using Exchanged = typename Warpgroups::template Exchanged<O>;
  static constexpr int TERMS = Warpgroups::TERMS, STEP = Warpgroups::STEP, STEPS = Warpgroups::STEPS;
  static constexpr int STAGE = Warpgroups::STAGE, LINE = Warpgroups::LINE, DOWN = C::ROWS / 64, TEAMS = 2;
  static constexpr int TILES_DOWN = Results::TILES_DOWN, TILES_ACROSS = Results::TILES_ACROSS;
  // Pairs of tiles.
  static constexpr int PAIRS_DOWN = C::ROWS_SHARED ? TILES_DOWN : (TILES_DOWN + 1) / 2;
  static constexpr int PAIRS_ACROSS = C::ROWS_SHARED ? (TILES_ACROSS + 1) / 2 : TILES_ACROSS;
  static constexpr int PAIRS = C::MATRICES * PAIRS_DOWN * PAIRS_ACROSS;
  static constexpr int BARRIERS = C::STAGES * STAGE, MAPS = BARRIERS + (4 * C::STAGES + 2 + 31) / 32 * 32;  // words before

  struct Place {
    int matrix, row, column;
    __device__ __forceinline__ Place(int pair, int rank) {
      const tfs_tile_order<PAIRS_DOWN, PAIRS_ACROSS> place(pair);
      matrix = place.matrix;
      row = (C::ROWS_SHARED ? place.down : 2 * place.down + rank) * C::ROWS;
      column = (C::ROWS_SHARED ? 2 * place.across + rank : place.across) * C::COLUMNS;
    }
  };

  // Boxes of an operand: of lines along terms all that a block brings, else parts of 64 rows or columns.
  template <class O, bool SHARED> struct Boxes {
    static constexpr int MINE = SHARED ? O::EXTENT / 2 : O::EXTENT, BOX_LINES = O::ALONG_TERMS ? MINE : TERMS;
    static constexpr int COUNT = O::ALONG_TERMS ? 1 : MINE / 64;
    static_assert(MINE % (O::ALONG_TERMS ? 8 : 64) == 0, "half of a tile is no whole part");
    static __device__ __forceinline__ void describe(int lane, tfs_tensor_map* to, tfs_tensor_map* shared, const T* start) {
      constexpr long long ONE_MATRIX = ((long long)O::LINE_STEP * (O::ALONG_TERMS ? O::WHOLE : C::K) + 7) / 8 * 8;
      tfs_describe_tensor(lane, to, shared, start, E::IS_BFLOAT16, O::ALONG_TERMS ? C::K : O::WHOLE,
                          O::ALONG_TERMS ? O::WHOLE : C::K, C::MATRICES, O::LINE_STEP,
                          C::MATRICES > 1 ? (long long)O::MATRIX_STEP : ONE_MATRIX, BOX_LINES);
    }
    static __device__ __forceinline__ void copy(uint32_t* tile, const tfs_tensor_map* map, int rank, int first, int term, int matrix,
                                                tfs_phase_barrier* full) {
      constexpr int BLOCKS = SHARED ? 3 : 0;
      const int mine = SHARED ? rank * MINE : 0;
      if constexpr (O::ALONG_TERMS) {
        tfs_copy_box<BLOCKS>(tile + mine * LINE, map, term, first + mine, matrix, full);
      } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
          tfs_copy_box<BLOCKS>(tile + (mine / 64 + i) * Exchanged<O>::PART, map, first + mine + 64 * i, term, matrix, full);
      }
    }
  };
  using BoxesA = Boxes<A, C::ROWS_SHARED>;
  using BoxesB = Boxes<B, !C::ROWS_SHARED>;

  // Lane t of four has columns 2 t and 2 t + 1 of each of EIGHTS eights of columns; after it all of eight number t, or of
  // two eights half t / 2 of number t % 2.
  static constexpr int EIGHTS = C::VECTOR < 2 ? 1 : C::VECTOR / 2, LOT = 2 * EIGHTS;
  static __device__ __forceinline__ void exchange(float (&v)[LOT], int t) {
#pragma unroll
    for (int half = 1; half < EIGHTS; half *= 2) {
      const int width = 2 * half;
      const bool upper = t & half;
#pragma unroll
      for (int lot = 0; lot < LOT / width; lot += 2)  // of each two keep one and get the neighbour's
#pragma unroll
        for (int i = 0; i < width; ++i) {
          float& low = v[lot * width + i];
          float& high = v[(lot + 1) * width + i];
          const float other = __shfl_xor_sync(0xffffffffu, upper ? low : high, half), own = upper ? high : low;
          low = upper ? other : own, high = upper ? own : other;
        }
    }
  }

  // Finishes lots I to End, of which the first has `column`: computes all of them before it stores any.
  template <int I, int End, class Finish>
  static __device__ __forceinline__ void finish_lots(float (&v)[C::COLUMNS / 8 / EIGHTS][LOT], int matrix, int row, int column,
                                                     const Finish& finish) {
    if constexpr (I < End) {
      auto store = finish(v[I], matrix, row, column / C::VECTOR + 8 * EIGHTS * I / C::VECTOR);
      finish_lots<I + 1, End>(v, matrix, row, column, finish);
      store();
    }
  }
  // Finishes a thread's results: pairs of columns of two rows eight apart, of which four threads make VECTOR neighbours.
  template <class Finish>
  static __device__ __forceinline__ void finish_all(const float (&c)[C::COLUMNS / 2], int matrix, int row, int first, int t,
                                                    const Finish& finish) {
    constexpr int LOTS = C::COLUMNS / 8 / EIGHTS;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float v[LOTS][LOT];
#pragma unroll
      for (int i = 0; i < LOTS; ++i) {
#pragma unroll
        for (int e = 0; e < LOT; ++e) v[i][e] = c[4 * (i * EIGHTS + e / 2) + 2 * half + e % 2];
        exchange(v[i], t);
      }
      if (row + 8 * half >= C::M) continue;
      const int beside = first + t % EIGHTS * 8 + t / EIGHTS * LOT;
      if constexpr (C::N % C::COLUMNS == 0 && LOT == C::VECTOR) {
        constexpr int HALF = LOTS < 8 ? LOTS : LOTS / 2;
        finish_lots<0, HALF>(v, matrix, row + 8 * half, beside, finish);
        finish_lots<HALF, LOTS>(v, matrix, row + 8 * half, beside, finish);
      } else {
#pragma unroll
        for (int i = 0; i < LOTS; ++i)
#pragma unroll
          for (int e = 0; e < LOT; e += C::VECTOR) {
            const int column = beside + 8 * EIGHTS * i + e;
            float values[C::VECTOR];
#pragma unroll
            for (int k = 0; k < C::VECTOR; ++k) values[k] = v[i][e + k];
            if (column < C::N) finish(values, matrix, row + 8 * half, column / C::VECTOR)();
          }
      }
    }
  }

  // maps: two of each block, in memory.
  template <class Finish>
  static __device__ __forceinline__ void run(int thread, int block, const T* a, const T* b, uint32_t* memory,
                                             tfs_tensor_map* maps, const Finish& finish) {
    memory = Warpgroups::aligned(memory);
    maps += 2 * block;
    auto* full = reinterpret_cast<tfs_phase_barrier*>(memory + BARRIERS);
    auto* empty = full + C::STAGES;
    auto* order = empty + C::STAGES;  // of tiles: all multiplications have begun
    const int rank = block % 2;
    if (thread == 0) {
      for (int i = 0; i < C::STAGES; ++i) full[i].init(1), empty[i].init(2);
      order->init(1);
      tfs_phase_barriers_ready();
    }
    const int warp = thread / 32, lane = thread % 32;
    const bool copies = warp == 4 * TEAMS;
    if (copies) BoxesA::describe(lane, maps, reinterpret_cast<tfs_tensor_map*>(memory + MAPS), a);
    if (warp == 1) BoxesB::describe(lane, maps + 1, reinterpret_cast<tfs_tensor_map*>(memory + MAPS) + 1, b);
    tfs_cluster_started();
    tfs_cluster_barrier();
    int turn = 0;  // stages before
    if (copies) {
      if (lane == 0) {
        tfs_await_tensor(maps), tfs_await_tensor(maps + 1);
#pragma unroll 1
        for (int pair = block / 2; pair < PAIRS; pair += C::BLOCKS / 2) {
          const Place own(pair, rank);
#pragma unroll 1
          for (int step = 0; step < STEPS; ++step, ++turn) {
            const int slot = turn % C::STAGES;
            if (turn >= C::STAGES) empty[slot].wait(turn / C::STAGES - 1);
            full[slot].expect(4 * STAGE);
            uint32_t* stage = memory + slot * STAGE;
            BoxesA::copy(stage, maps, rank, own.row, step * TERMS, own.matrix, &full[slot]);
            BoxesB::copy(stage + Exchanged<A>::WORDS, maps + 1, rank, own.column, step * TERMS, own.matrix, &full[slot]);
          }
        }
      }
      __syncwarp();
    } else {
      const auto release = [&](int turn) { if (thread % 128 < 2) empty[turn % C::STAGES].arrive(thread % 128); };
      int tile = 0;
#pragma unroll 1
      for (int pair = block / 2; pair < PAIRS; pair += C::BLOCKS / 2, ++tile) {
        if (tile % TEAMS != warp / 4) {
          turn += STEPS;
          continue;
        }
        const Place own(pair, rank);
        float c[DOWN][C::COLUMNS / 2];
#pragma unroll
        for (int d = 0; d < DOWN; ++d)
#pragma unroll
          for (int i = 0; i < C::COLUMNS / 2; ++i) c[d][i] = 0.0f;
        if (tile > 0) order->wait(tile - 1);  // else a stage could be an earlier one of its slot
#pragma unroll 1
        for (int step = 0; step < STEPS; ++step, ++turn) {
          const int slot = turn % C::STAGES;
          full[slot].wait(turn / C::STAGES);
          const uint32_t* its_a = memory + slot * STAGE;
          const uint32_t* its_b = its_a + Exchanged<A>::WORDS;
          tfs_warpgroup_begin();
#pragma unroll
          for (int term = 0; term < TERMS; term += STEP)
#pragma unroll
            for (int d = 0; d < DOWN; ++d)
              Multiply::template run<!A::ALONG_TERMS, !B::ALONG_TERMS>(
                  c[d], Exchanged<A>::matrix(its_a, 64 * d, term), Exchanged<B>::matrix(its_b, 0, term));
          tfs_warpgroup_commit();
          tfs_warpgroup_wait<1>();
          if (step > 0) release(turn - 1);
        }
        if (thread % 128 == 0) order->arrive(rank);
        tfs_warpgroup_wait<0>();
        release(turn - 1);
        if (own.row >= C::M || own.column >= C::N) continue;  // the second of a pair at the end
#pragma unroll
        for (int d = 0; d < DOWN; ++d)
          finish_all(c[d], own.matrix, own.row + 64 * d + warp % 4 * 16 + lane / 4, own.column, lane % 4, finish);
      }
    }
    tfs_cluster_barrier();  // nobody copies to a block that has ended, or arrives there
  }
};
