// A matmul by mma.sync whose operands may be computed on their way to shared memory and whose results are finished in the
// kernel. A block has a tile of ROWS x COLUMNS results; ROW_WARPS x COLUMN_WARPS warps share it. Stages of operands go
// through shared memory in turns: what lies in memory as it is by asynchronous copies, what is computed through registers,
// computed before a stage is multiplied and written behind it. Results go through shared memory, too, so that a thread
// finishes neighbours and memory is accessed in whole lines.
//
// Where there are PARTS, so many such groups of warps have the same tile, and stages of their own: each takes every
// PARTS-th stage of the terms, and what they have is added up, in order, as a result is finished. A part of one warp
// waits for no other before that. Where there are SHARERS, so many blocks of a cluster have the same tile, and share the
// stages likewise; each sends what it has of a result to the block that finishes it.
//
// Fragments of mma.sync: see attention.cu. A tile of an operand has LINES: along terms (one row of a, one column of b), or
// of one term. Half types are read by ldmatrix, transposed where lines are of one term; float32 by words.
//
// C (emit/matmul.py writes it): Element, Barrier; MATRICES, M, N, K; ROWS, COLUMNS, WORDS, ROW_WARPS, COLUMN_WARPS, PARTS,
// SHARERS, STAGES; AHEAD, whether prefetch was called before;
// VECTOR: neighbouring columns that are finished at a time; GATES: equal parts of the columns, of each of which a block
// has the same ones, and a thread finishes the same vector; A and B: EXTENT of the tile beside terms, WHOLE of the matrix,
// GATES (of a: 1), ALONG_TERMS, VECTOR, LINE (words in shared memory), PLAIN, MATRIX_STEP, LINE_STEP (elements in memory).

template <class C> struct tfs_matmul {
  using E = typename C::Element;
  using T = typename E::Storage;
  using A = typename C::A;
  using B = typename C::B;
  static constexpr int PER_WORD = E::PER_WORD, TERMS = C::WORDS * PER_WORD;  // of a stage
  static constexpr int THREADS = 32 * C::ROW_WARPS * C::COLUMN_WARPS;  // of a part
  static constexpr int TURN = C::SHARERS * C::PARTS * TERMS;  // that all go through in a step
  static constexpr int STEPS = (C::K + TURN - 1) / TURN;
  static constexpr int WARP_ROWS = C::ROWS / C::ROW_WARPS, WARP_COLUMNS = C::COLUMNS / C::COLUMN_WARPS;
  static constexpr int DOWN = WARP_ROWS / 16, ACROSS = WARP_COLUMNS / 8;  // instructions of a warp
  using Results = tfs_result_tile<C>;

  // For what the threads of a part share.
  static __device__ __forceinline__ void wait_for_part() {
    if constexpr (C::PARTS > 1 && THREADS == 32) __syncwarp();
    else C::Barrier::wait();
  }

  // Lines of a tile of an operand, padded so that the accesses of a warp hit every bank once.
  template <class O> struct Padded {
    static constexpr int WORDS = (O::ALONG_TERMS ? O::EXTENT : TERMS) * O::LINE;
    static __device__ __forceinline__ T* at(uint32_t* tile, int line, int element) {
      return reinterpret_cast<T*>(tile + line * O::LINE) + element;
    }
  };
  template <class O> using Tile = tfs_operand_tile<C, O, Padded<O>, THREADS, TERMS, TURN>;
  static constexpr int STAGE = Tile<A>::WORDS + Tile<B>::WORDS, SLOTS = STEPS < C::STAGES ? STEPS : C::STAGES;

  // Words of a part in shared memory.
  static constexpr int RESULTS = C::ROWS * Results::LINE, PART = SLOTS * STAGE > RESULTS ? SLOTS * STAGE : RESULTS;

  // The four words of 16 rows of a at `row`, and of `word` and on of their terms.
  static __device__ __forceinline__ void read_a(uint32_t (&a)[4], const uint32_t* tile, int row, int word, int lane) {
    if constexpr (PER_WORD == 1) {
      const int g = lane / 4, t = lane % 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = row + g + i % 2 * 8, w = word + t + i / 2 * 4;
        a[i] = E::operand(A::ALONG_TERMS ? tile[r * A::LINE + w] : tile[w * A::LINE + r]);
      }
    } else if constexpr (A::ALONG_TERMS) {
      tfs_load_matrices(a, tile + (row + lane % 16) * A::LINE + word + lane / 16 * 4);
    } else {
      const int term = word * 2 + lane / 16 * 8 + lane % 8;
      tfs_load_transposed(a, tile + term * A::LINE + (row + lane / 8 % 2 * 8) / 2);
    }
  }
  // The words of 16 columns of b: two of the first 8, two of the others.
  static __device__ __forceinline__ void read_b(uint32_t (&b)[4], const uint32_t* tile, int column, int word, int lane) {
    if constexpr (PER_WORD == 1) {
      const int g = lane / 4, t = lane % 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int c = column + g + i / 2 * 8, w = word + t + i % 2 * 4;
        b[i] = E::operand(B::ALONG_TERMS ? tile[c * B::LINE + w] : tile[w * B::LINE + c]);
      }
    } else if constexpr (B::ALONG_TERMS) {
      tfs_load_matrices(b, tile + (column + lane / 16 * 8 + lane % 8) * B::LINE + word + lane / 8 % 2 * 4);
    } else {
      tfs_load_transposed(b, tile + (word * 2 + lane % 16) * B::LINE + (column + lane / 16 * 8) / 2);
    }
  }

  // Which tile is a block's, and which of its stages a thread's.
  struct Own : Results {
    int part, thread, sharer;
    uint32_t* stages;
    __device__ __forceinline__ Own(int all_threads, int block, uint32_t* memory) : Results(block / C::SHARERS) {
      part = all_threads / THREADS, thread = all_threads % THREADS, sharer = block % C::SHARERS;
      stages = memory + part * SLOTS * STAGE;
    }
    __device__ __forceinline__ uint32_t* stage(int step) const { return stages + step % C::STAGES * STAGE; }
    __device__ __forceinline__ int term(int step) const {
      return ((step * C::SHARERS + sharer) * C::PARTS + part) * TERMS;
    }
  };

  // Begins to copy b's first stages. They belong to the first group that run waits for.
  static __device__ __forceinline__ void prefetch(int all_threads, int block, const T* b, uint32_t* memory) {
    const Own own(all_threads, block, memory);
    b += (long long)own.matrix * B::MATRIX_STEP;
#pragma unroll 1
    for (int step = 0; step < C::STAGES - 1 && step < STEPS; ++step)
      Tile<B>::copy(own.stage(step) + Tile<A>::WORDS, own.thread, b, own.column, own.term(step));
  }

  // memory: of each part SLOTS stages of a tile of a and of b, later its results; behind those of all parts what the
  // blocks of a cluster send. load_a(values, matrix, line, chunk) computes a vector of an operand that is not PLAIN;
  // finish(results, matrix, row, chunk) takes VECTOR results of a row, and returns a function that stores what they become.
  template <class LoadA, class LoadB, class Finish>
  static __device__ __forceinline__ void run(int all_threads, int block, const T* a, const T* b, uint32_t* memory,
                                             const LoadA& load_a, const LoadB& load_b, const Finish& finish) {
    const Own own(all_threads, block, memory);
    const int thread = own.thread, lane = thread % 32, warp = thread / 32, row = own.row, column = own.column;
    const int matrix = own.matrix;
    if constexpr (A::PLAIN) a += (long long)matrix * A::MATRIX_STEP;
    if constexpr (B::PLAIN) b += (long long)matrix * B::MATRIX_STEP;
    Tile<A> tile_a;
    Tile<B> tile_b;
    const auto begin = [&](int step, bool has_b) {
      uint32_t* stage = own.stage(step);
      const int term = own.term(step);
      if constexpr (A::PLAIN) Tile<A>::copy(stage, thread, a, row, term);
      else tile_a.compute(thread, matrix, row, term, load_a);
      if (has_b) return;
      if constexpr (B::PLAIN) Tile<B>::copy(stage + Tile<A>::WORDS, thread, b, column, term);
      else tile_b.compute(thread, matrix, column, term, load_b);
    };
    const auto end = [&](int step) {
      uint32_t* stage = own.stage(step);
      if constexpr (!A::PLAIN) tile_a.write(stage, thread);
      if constexpr (!B::PLAIN) tile_b.write(stage + Tile<A>::WORDS, thread);
    };
#pragma unroll 1
    for (int step = 0; step < C::STAGES - 1; ++step) {
      if (step < STEPS) {
        begin(step, C::AHEAD);
        end(step);
      }
      tfs_copy_commit();
    }
    const int warp_row = warp % C::ROW_WARPS * WARP_ROWS, warp_column = warp / C::ROW_WARPS * WARP_COLUMNS;
    float c[DOWN][ACROSS][4];
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
      for (int j = 0; j < ACROSS; ++j)
#pragma unroll
        for (int v = 0; v < 4; ++v) c[i][j][v] = 0.0f;
#pragma unroll 1
    for (int step = 0; step < STEPS; ++step) {
      tfs_copy_wait<C::STAGES - 2>();
      wait_for_part();  // this stage is there, and nobody reads the one before any more, which the next copies go to
      const int next = step + C::STAGES - 1;
      if (next < STEPS) begin(next, false);
      tfs_copy_commit();
      const uint32_t* stage_a = own.stage(step);
      const uint32_t* stage_b = stage_a + Tile<A>::WORDS;
#pragma unroll
      for (int word = 0; word < C::WORDS; word += 8) {
        uint32_t left[DOWN][4], right[ACROSS / 2][4];
#pragma unroll
        for (int i = 0; i < DOWN; ++i) read_a(left[i], stage_a, warp_row + 16 * i, word, lane);
#pragma unroll
        for (int j = 0; j < ACROSS / 2; ++j) read_b(right[j], stage_b, warp_column + 16 * j, word, lane);
#pragma unroll
        for (int i = 0; i < DOWN; ++i)
#pragma unroll
          for (int j = 0; j < ACROSS; ++j) E::mma(c[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
      }
      if (next < STEPS) end(next);
    }
    tfs_copy_wait<0>();
    C::Barrier::wait();  // nobody reads operands any more
    float* results = reinterpret_cast<float*>(memory);
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
      for (int j = 0; j < ACROSS; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int line = own.part * C::ROWS + warp_row + 16 * i + 8 * half + lane / 4;
          float* to = results + line * Results::LINE + warp_column + 8 * j + lane % 4 * 2;
          *reinterpret_cast<tfs_vector<float, 2>*>(to) = {{c[i][j][2 * half], c[i][j][2 * half + 1]}};
        }
    C::Barrier::wait();
    constexpr int ALL = Results::ALL, BLOCK = C::PARTS * THREADS;
    if constexpr (C::SHARERS == 1) {
      own.template finish_all<BLOCK, C::PARTS>(all_threads, results, finish);
    } else {
      constexpr int EACH = (ALL + C::SHARERS - 1) / C::SHARERS, LENGTH = EACH * Results::FINISHED;  // that a block finishes
      float* received = reinterpret_cast<float*>(memory) + C::PARTS * PART;
      tfs_cluster_started();
      for (int i = all_threads; i < ALL; i += BLOCK)
#pragma unroll
        for (int gate = 0; gate < C::GATES; ++gate)
          Results::put(tfs_in_block(received + own.sharer * LENGTH + i % EACH * Results::FINISHED + gate * C::VECTOR, i / EACH),
                       Results::template sum_of_parts<C::PARTS>(results, i, gate));
      tfs_cluster_barrier();
      for (int j = all_threads; j < EACH; j += BLOCK)
        if (own.sharer * EACH + j < ALL)
          own.finish_one(own.sharer * EACH + j, [&](int gate) {
            return Results::template sum<C::SHARERS>(received + j * Results::FINISHED + gate * C::VECTOR, LENGTH);
          }, finish);
    }
  }
};
