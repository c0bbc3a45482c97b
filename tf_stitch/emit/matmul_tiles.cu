// What a block has of a matmul: a tile of its results, and for it tiles of both operands, in stages of terms.
// C, O: see matmul.cu.

// Where number `number` stands among DOWN x ACROSS of each matrix. TOGETHER rows are gone down before the next columns:
// blocks that run at one time share operands.
template <int DOWN, int ACROSS> struct tfs_tile_order {
  static constexpr int TOGETHER = 8;
  int matrix, down, across;
  __device__ __forceinline__ explicit tfs_tile_order(int number) : matrix(number / (DOWN * ACROSS)) {
    const int tile = number % (DOWN * ACROSS), top = tile / (TOGETHER * ACROSS) * TOGETHER;
    const int height = DOWN - top < TOGETHER ? DOWN - top : TOGETHER;
    down = top + tile % (TOGETHER * ACROSS) % height;
    across = tile % (TOGETHER * ACROSS) / height;
  }
};

// Which results are a block's.
template <class C> struct tfs_result_tile {
  static constexpr int GATE = C::COLUMNS / C::GATES, GATE_COLUMNS = C::N / C::GATES;
  static constexpr int TILES_DOWN = (C::M + C::ROWS - 1) / C::ROWS, TILES_ACROSS = (GATE_COLUMNS + GATE - 1) / GATE;
  static constexpr int CHUNKS = GATE / C::VECTOR, ALL = C::ROWS * CHUNKS;  // vectors of each gate
  static constexpr int FINISHED = C::GATES * C::VECTOR;  // results that are finished at a time
  static constexpr int LINE = C::COLUMNS + 8;  // floats of a row of results in shared memory
  static constexpr int W = C::VECTOR < 4 ? C::VECTOR : 4;  // floats of the widest access
  using Vector = tfs_vector<float, C::VECTOR>;
  int matrix, row, column;

  __device__ __forceinline__ explicit tfs_result_tile(int block) {
    const tfs_tile_order<TILES_DOWN, TILES_ACROSS> place(block);
    matrix = place.matrix, row = place.down * C::ROWS, column = place.across * GATE;
  }

  // Sums of vectors that lie `apart` floats from each other, in order.
  template <int Count> static __device__ __forceinline__ Vector sum(const float* from, int apart) {
    Vector values;
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
  static __device__ __forceinline__ void put(float* to, const Vector& values) {
#pragma unroll
    for (int v = 0; v < C::VECTOR; v += W)
      *reinterpret_cast<tfs_vector<float, W>*>(to + v) = *reinterpret_cast<const tfs_vector<float, W>*>(values.v + v);
  }
  // Vector number i of a gate, of which shared memory has so many parts.
  template <int Parts> static __device__ __forceinline__ Vector sum_of_parts(const float* results, int i, int gate) {
    return sum<Parts>(results + i / CHUNKS * LINE + gate * GATE + i % CHUNKS * C::VECTOR, C::ROWS * LINE);
  }
  // Finishes vector number i, of which of_gate(gate) gives the part of a gate, if the matrix has it.
  template <class OfGate, class Finish>
  __device__ __forceinline__ void finish_one(int i, const OfGate& of_gate, const Finish& finish) const {
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
    finish(values, matrix, its_row, chunk)();
  }
  // Finishes all, by so many threads.
  template <int Threads, int Parts, class Finish>
  __device__ __forceinline__ void finish_all(int thread, const float* results, const Finish& finish) const {
#pragma unroll 4
    for (int j = 0; j < (ALL + Threads - 1) / Threads; ++j) {
      const int i = thread + j * Threads;
      if (ALL % Threads != 0 && i >= ALL) break;
      finish_one(i, [&](int gate) { return sum_of_parts<Parts>(results, i, gate); }, finish);
    }
  }
};

// One operand: how THREADS bring a tile of it to shared memory, where Layout says. All that share a tile go through TURN
// terms in a step.
template <class C, class O, class Layout, int THREADS, int TERMS, int TURN> struct tfs_operand_tile {
  using E = typename C::Element;
  using T = typename E::Storage;
  static constexpr int PER_WORD = E::PER_WORD, WORDS = Layout::WORDS;
  static constexpr int LINES = O::ALONG_TERMS ? O::EXTENT : TERMS;
  static constexpr int LENGTH = O::ALONG_TERMS ? TERMS : O::EXTENT;  // elements of a line
  static constexpr int CHUNKS = LENGTH / O::VECTOR, ALL = LINES * CHUNKS;
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
    return Layout::at(tile, i / CHUNKS, i % CHUNKS * O::VECTOR);
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
