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
  static constexpr int TILES_DOWN = (C::M + C::ROWS - 1) / C::ROWS, GATE = C::COLUMNS / C::GATES;
  static constexpr int GATE_COLUMNS = C::N / C::GATES, TILES_ACROSS = (GATE_COLUMNS + GATE - 1) / GATE;
  static constexpr int TOGETHER = 8;  // rows of tiles whose columns are gone through together: they share operands
  static constexpr int RESULT_LINE = C::COLUMNS + 8;

  // For what the threads of a part share.
  static __device__ __forceinline__ void wait_for_part() {
    if constexpr (C::PARTS > 1 && THREADS == 32) __syncwarp();
    else C::Barrier::wait();
  }

  // One operand: how a tile of it is laid out in shared memory and brought there.
  template <class O> struct Tile {
    static constexpr int LINES = O::ALONG_TERMS ? O::EXTENT : TERMS;
    static constexpr int LENGTH = O::ALONG_TERMS ? TERMS : O::EXTENT;  // elements of a line
    static constexpr int WORDS = LINES * O::LINE, CHUNKS = LENGTH / O::VECTOR, ALL = LINES * CHUNKS;
    static constexpr int MINE = (ALL + THREADS - 1) / THREADS;  // vectors that a thread brings
    static constexpr bool WHOLE_WORDS = O::VECTOR % PER_WORD == 0;
    using Held = tfs_vector<uint32_t, WHOLE_WORDS ? O::VECTOR / PER_WORD : 1>;
    Held held[O::PLAIN ? 1 : MINE];

    static __device__ __forceinline__ bool mine(int i) { return ALL % THREADS == 0 || i < ALL; }
    // Line and chunk of the whole matrix for vector number i of the tile at `first` beside terms and at `term`; whether
    // it is there.
    static __device__ __forceinline__ bool place(int i, int first, int term, int& line, int& chunk) {
      if constexpr (O::GATES > 1) {
        constexpr int OF_TILE = O::EXTENT / O::GATES, OF_ALL = O::WHOLE / O::GATES;
        const int beside = O::ALONG_TERMS ? i / CHUNKS : i % CHUNKS * O::VECTOR, in_gate = first + beside % OF_TILE;
        const int at = beside / OF_TILE * OF_ALL + in_gate;
        line = O::ALONG_TERMS ? at : i / CHUNKS + term;
        chunk = O::ALONG_TERMS ? i % CHUNKS + term / O::VECTOR : at / O::VECTOR;
        return in_gate < OF_ALL && (O::ALONG_TERMS ? chunk < C::K / O::VECTOR : line < C::K);
      }
      line = i / CHUNKS + (O::ALONG_TERMS ? first : term);
      chunk = i % CHUNKS + (O::ALONG_TERMS ? term : first) / O::VECTOR;
      constexpr bool WHOLE_TILES = O::WHOLE % O::EXTENT == 0 && C::K % TURN == 0;
      return WHOLE_TILES || (line < (O::ALONG_TERMS ? O::WHOLE : C::K)
                             && chunk < (O::ALONG_TERMS ? C::K : O::WHOLE) / O::VECTOR);
    }
    static __device__ __forceinline__ T* slot(uint32_t* tile, int i) {
      return reinterpret_cast<T*>(tile + i / CHUNKS * O::LINE) + i % CHUNKS * O::VECTOR;
    }
    // Asynchronously; what is not there becomes zeros.
    static __device__ __forceinline__ void copy(uint32_t* tile, int thread, const T* from, int first, int term) {
#pragma unroll
      for (int j = 0; j < MINE; ++j) {
        const int i = thread + j * THREADS;
        int line, chunk;
        const bool there = place(i, first, term, line, chunk);
        const T* source = from + (there ? (long long)line * O::LINE_STEP + chunk * O::VECTOR : 0);
        if (mine(i)) tfs_copy_async(slot(tile, i), source, there);
      }
    }
    template <class Load>
    __device__ __forceinline__ void compute(int thread, int matrix, int first, int term, const Load& load) {
#pragma unroll
      for (int j = 0; j < MINE; ++j) {
        const int i = thread + j * THREADS;
        int line, chunk;
        const bool there = place(i, first, term, line, chunk) && mine(i);
        float values[O::VECTOR];
#pragma unroll
        for (int v = 0; v < O::VECTOR; ++v) values[v] = 0.0f;
        if (there) load(values, matrix, line, chunk);
#pragma unroll
        for (int v = 0; v < O::VECTOR; v += PER_WORD) {
          if constexpr (PER_WORD == 1) held[j].v[v] = __float_as_uint(values[v]);
          else held[j].v[v / 2] = E::pack(values[v], WHOLE_WORDS ? values[v + WHOLE_WORDS] : 0.0f);
        }
      }
    }
    __device__ __forceinline__ void write(uint32_t* tile, int thread) const {
#pragma unroll
      for (int j = 0; j < MINE; ++j) {
        const int i = thread + j * THREADS;
        if (!mine(i)) continue;
        if constexpr (WHOLE_WORDS) *reinterpret_cast<Held*>(slot(tile, i)) = held[j];
        else *slot(tile, i) = (T)held[j].v[0];
      }
    }
  };
  static constexpr int STAGE = Tile<A>::WORDS + Tile<B>::WORDS, SLOTS = STEPS < C::STAGES ? STEPS : C::STAGES;

  // Words of a part in shared memory.
  static constexpr int RESULTS = C::ROWS * RESULT_LINE, PART = SLOTS * STAGE > RESULTS ? SLOTS * STAGE : RESULTS;

  // Sums of vectors that lie `apart` floats from each other, in order.
  template <int Count> static __device__ __forceinline__ tfs_vector<float, C::VECTOR> sum(const float* from, int apart) {
    constexpr int W = C::VECTOR < 4 ? C::VECTOR : 4;  // floats of the widest access
    tfs_vector<float, C::VECTOR> values;
#pragma unroll
    for (int v = 0; v < C::VECTOR; v += W) {
      auto& sum = *reinterpret_cast<tfs_vector<float, W>*>(values.v + v);
      sum = *reinterpret_cast<const tfs_vector<float, W>*>(from + v);
#pragma unroll
      for (int other = 1; other < Count; ++other) {
        const auto more = *reinterpret_cast<const tfs_vector<float, W>*>(from + other * apart + v);
#pragma unroll
        for (int w = 0; w < W; ++w) sum.v[w] += more.v[w];
      }
    }
    return values;
  }
  static __device__ __forceinline__ void put(float* to, const tfs_vector<float, C::VECTOR>& values) {
    constexpr int W = C::VECTOR < 4 ? C::VECTOR : 4;
#pragma unroll
    for (int v = 0; v < C::VECTOR; v += W)
      *reinterpret_cast<tfs_vector<float, W>*>(to + v) = *reinterpret_cast<const tfs_vector<float, W>*>(values.v + v);
  }

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
  struct Own {
    int part, thread, sharer, matrix, row, column;
    uint32_t* stages;
    __device__ __forceinline__ Own(int all_threads, int block, uint32_t* memory) {
      part = all_threads / THREADS, thread = all_threads % THREADS;
      stages = memory + part * SLOTS * STAGE;
      sharer = block % C::SHARERS, block /= C::SHARERS;
      matrix = block / (TILES_DOWN * TILES_ACROSS);
      const int tile = block % (TILES_DOWN * TILES_ACROSS), top = tile / (TOGETHER * TILES_ACROSS) * TOGETHER;
      const int height = TILES_DOWN - top < TOGETHER ? TILES_DOWN - top : TOGETHER;
      row = (top + tile % (TOGETHER * TILES_ACROSS) % height) * C::ROWS;
      column = tile % (TOGETHER * TILES_ACROSS) / height * GATE;
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
  // finish(results, matrix, row, chunk) takes VECTOR results of a row.
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
          float* to = results + line * RESULT_LINE + warp_column + 8 * j + lane % 4 * 2;
          *reinterpret_cast<tfs_vector<float, 2>*>(to) = {{c[i][j][2 * half], c[i][j][2 * half + 1]}};
        }
    C::Barrier::wait();
    constexpr int CHUNKS = GATE / C::VECTOR, ALL = C::ROWS * CHUNKS, BLOCK = C::PARTS * THREADS;
    constexpr int FINISHED = C::GATES * C::VECTOR;  // results that are finished at a time
    using Vector = tfs_vector<float, C::VECTOR>;
    const auto of_parts = [&](int i, int gate) {
      const float* from = results + i / CHUNKS * RESULT_LINE + gate * GATE + i % CHUNKS * C::VECTOR;
      return sum<C::PARTS>(from, C::ROWS * RESULT_LINE);
    };
    const auto finish_one = [&](int i, const auto& of_gate) {
      const int its_row = row + i / CHUNKS, chunk = column / C::VECTOR + i % CHUNKS;
      if (!((C::M % C::ROWS == 0 || its_row < C::M) && (GATE_COLUMNS % GATE == 0 || chunk < GATE_COLUMNS / C::VECTOR)))
        return;
      float values[FINISHED];
#pragma unroll
      for (int gate = 0; gate < C::GATES; ++gate) {
        const Vector its = of_gate(gate);
#pragma unroll
        for (int v = 0; v < C::VECTOR; ++v) values[gate * C::VECTOR + v] = its.v[v];
      }
      finish(values, matrix, its_row, chunk);
    };
    if constexpr (C::SHARERS == 1) {
#pragma unroll 4
      for (int j = 0; j < (ALL + BLOCK - 1) / BLOCK; ++j) {
        const int i = all_threads + j * BLOCK;
        if (ALL % BLOCK != 0 && i >= ALL) break;
        finish_one(i, [&](int gate) { return of_parts(i, gate); });
      }
    } else {
      constexpr int EACH = (ALL + C::SHARERS - 1) / C::SHARERS, LENGTH = EACH * FINISHED;  // that a block finishes
      float* received = reinterpret_cast<float*>(memory) + C::PARTS * PART;
      tfs_cluster_started();
      for (int i = all_threads; i < ALL; i += BLOCK)
#pragma unroll
        for (int gate = 0; gate < C::GATES; ++gate)
          put(tfs_in_block(received + own.sharer * LENGTH + i % EACH * FINISHED + gate * C::VECTOR, i / EACH),
              of_parts(i, gate));
      tfs_cluster_barrier();
      for (int j = all_threads; j < EACH; j += BLOCK)
        if (own.sharer * EACH + j < ALL)
          finish_one(own.sharer * EACH + j, [&](int gate) {
            return sum<C::SHARERS>(received + j * FINISHED + gate * C::VECTOR, LENGTH);
          });
    }
  }
};
