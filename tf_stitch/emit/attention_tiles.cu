// What attention kernels do with tiles of rows in shared memory; fragments of mma.sync: see attention.cu.

// A score so far above what is masked makes the exponentials of that 0: exp(-104) is less than half of the least float.
constexpr float TFS_FAR = 128.0f;

// Tiles up to the one that has the last column that is seen, of so many; one at least.
__device__ __forceinline__ int tfs_tiles_up_to(int last, int tile, int tiles) {
  const int seen = last < 0 ? 1 : last / tile + 1;
  return seen < tiles ? seen : tiles;
}

// As exact as the operands of matmuls that it is rounded to: off by 1e-7 of the result for each 2 of x.
__device__ __forceinline__ float tfs_exp_fast(float x) {
  constexpr float LOG2_E = 1.44269504f;
  return tfs_exp2_fast(x * LOG2_E);
}

// Stores four results, each a sum of weighted values over the sum of the weights.
template <class E> __device__ __forceinline__ void tfs_store_quotients(typename E::Storage* to, const float (&o)[4], float sum) {
  tfs_vector<uint32_t, 4 / E::PER_WORD> words;
  if constexpr (E::PER_WORD == 1) {
#pragma unroll
    for (int j = 0; j < 4; ++j) words.v[j] = __float_as_uint(o[j] / sum);
  } else {
#pragma unroll
    for (int j = 0; j < 2; ++j) words.v[j] = E::pack(o[2 * j] / sum, o[2 * j + 1] / sum);
  }
  *reinterpret_cast<tfs_vector<uint32_t, 4 / E::PER_WORD>*>(to) = words;
}

// Stores eight results.
template <class E> __device__ __forceinline__ void tfs_store_eight(typename E::Storage* to, const float* from) {
  constexpr int WORDS = 8 / E::PER_WORD;
  tfs_vector<uint32_t, 4> words[WORDS / 4];
#pragma unroll
  for (int j = 0; j < 8; j += 4) {
    const auto part = *reinterpret_cast<const tfs_vector<float, 4>*>(from + j);
    if constexpr (E::PER_WORD == 1) {
#pragma unroll
      for (int i = 0; i < 4; ++i) words[j / 4].v[i] = __float_as_uint(part.v[i]);
    } else {
      words[0].v[j / 2] = E::pack(part.v[0], part.v[1]);
      words[0].v[j / 2 + 1] = E::pack(part.v[2], part.v[3]);
    }
  }
#pragma unroll
  for (int j = 0; j < WORDS / 4; ++j) reinterpret_cast<tfs_vector<uint32_t, 4>*>(to)[j] = words[j];
}

// Copies ROWS rows of WORDS words, `step` elements apart, into shared memory, STRIDE words apart; rows that are not there
// become zeros, or their products might be NaN.
template <class E, int THREADS, int ROWS, int WORDS, int STRIDE>
__device__ __forceinline__ void tfs_copy_rows(int thread, uint32_t* shared, const typename E::Storage* rows, int step,
                                              int there) {
  constexpr int CHUNKS = WORDS / 4;
  for (int i = thread; i < ROWS * CHUNKS; i += THREADS) {
    const int row = i / CHUNKS, chunk = i % CHUNKS;
    const typename E::Storage* from = rows + (long long)(row < there ? row : 0) * step + chunk * (4 * E::PER_WORD);
    tfs_copy_async(shared + row * STRIDE + chunk * 4, from, row < there);
  }
}

// o += p v: p as a matmul left it, 16 rows and TERMS columns; v: TERMS rows of WORDS words in shared memory, STRIDE apart.
// Of float32 block c * V + j of o has columns V g + j of V blocks.
template <class E, int TERMS, int WORDS, int STRIDE, int V, int BLOCKS>
__device__ __forceinline__ void tfs_add_rows(float (&o)[BLOCKS][4], const float (&p)[TERMS / 8][4], const uint32_t* v,
                                             int g, int t) {
  if constexpr (E::PER_WORD == 1) {  // terms t, t + 4 of the instruction are rows 2 t, 2 t + 1 of v
#pragma unroll
    for (int n = 0; n < TERMS / 8; ++n) {
      uint32_t a[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = E::operand(__float_as_uint(p[n][i / 2 + 2 * (i % 2)]));
      const uint32_t* row = v + (8 * n + 2 * t) * STRIDE + g * V;
#pragma unroll
      for (int c = 0; c < WORDS / (8 * V); ++c) {
        const auto even = *reinterpret_cast<const tfs_vector<uint32_t, V>*>(row + 8 * V * c);
        const auto odd = *reinterpret_cast<const tfs_vector<uint32_t, V>*>(row + STRIDE + 8 * V * c);
#pragma unroll
        for (int j = 0; j < V; ++j) E::mma(o[c * V + j], a, E::operand(even.v[j]), E::operand(odd.v[j]));
      }
    }
  } else {
    const int lane = 4 * g + t;
#pragma unroll
    for (int n = 0; n < TERMS / 8; n += 2) {
      uint32_t a[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = E::pack(p[n + i / 2][2 * (i % 2)], p[n + i / 2][2 * (i % 2) + 1]);
      const uint32_t* row = v + (8 * n + lane % 16) * STRIDE + lane / 16 * 4;
#pragma unroll
      for (int c = 0; c < WORDS / 8; ++c) {
        uint32_t b[4];
        tfs_load_transposed(b, row + 8 * c);
        E::mma(o[2 * c], a, b[0], b[1]);
        E::mma(o[2 * c + 1], a, b[2], b[3]);
      }
    }
  }
}
