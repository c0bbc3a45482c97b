// Gradients of an attention in one kernel each, its scores and their gradients in registers. A block has ROWS queries, or
// ROWS keys, 16 a warp; here they are rows. All warps see the others, keys or queries, here columns, a TILE at a time.
// For a row i and a column j there are two products of rows of matrices,
//   s = <own[i], other[j]> of DEPTH terms: the score, d = <own_2[i], other_2[j]> of WIDTH terms: the gradient of its weight,
// of which `element` makes the weight, in s, and the gradient of the score, in d. Then
//   result[i] = sum over j of d other[j], and where blocks have keys (BY_KEYS) result_2[i] = sum over j of s other_2[j].
// Where they have queries, all columns are seen twice: `summand` makes of s and d what has to be summed over a row before
// any element is known; `keep` is told the sum.
// CAUSAL: elements of keys above their query + AHEAD are 0 if the exponential of masked() is, relative to the largest
// score of their query, most(outer, head, query); tiles of nothing else are left out then.
//
// C (emit/attention.py writes it): Element; HEADS, ROWS_, COLUMNS, DEPTH, WIDTH; WARPS, TILE; BY_KEYS; HELD: own rows stay
// in registers; VECTOR, VECTOR_2: words of vectors of float32; OWN_..., OWN_2_..., OTHER_..., OTHER_2_..., RESULT_...,
// RESULT_2_...: elements between what is OUTER, between HEADs, between ROWs; CAUSAL, AHEAD.

template <class C> struct tfs_attention_gradient {
  using E = typename C::Element;
  using T = typename E::Storage;
  static constexpr int THREADS = 32 * C::WARPS, ROWS = 16 * C::WARPS, TILE = C::TILE, BLOCKS = TILE / 8;
  static constexpr int TILES = (C::COLUMNS + TILE - 1) / TILE, STAGES = TILES > 1 ? 2 : 1;
  static constexpr int WORDS = C::DEPTH / E::PER_WORD, WORDS_2 = C::WIDTH / E::PER_WORD;
  static constexpr int STRIDE = WORDS + 4, STRIDE_2 = WORDS_2 + 4;  // 4 modulo 8: eight rows hit every bank once
  static constexpr int OWN = ROWS * (STRIDE + STRIDE_2), STAGE = TILE * (STRIDE + STRIDE_2);

  int thread, g, t, outer, head, row;  // row: the first of the thread's two, g and g + 8 of its warp's
  uint32_t held[C::HELD ? WORDS / 8 : 1][4], held_2[C::HELD ? WORDS_2 / 8 : 1][4];

  // Words c * 8 to c * 8 + 7 of 16 rows, as the left operand.
  __device__ __forceinline__ void read_rows(uint32_t (&a)[4], const uint32_t* rows, int stride, int c) const {
    const int lane = 4 * g + t;
    tfs_load_matrices(a, rows + lane % 16 * stride + lane / 16 * 4 + 8 * c);
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = E::operand(a[i]);
  }

  // s = own other^T for the warp's rows and a tile.
  template <int ALL, int STEP, int KEPT>
  __device__ __forceinline__ void multiply(float (&s)[BLOCKS][4], const uint32_t (&kept)[KEPT][4], const uint32_t* own,
                                           const uint32_t* other) const {
    const int lane = 4 * g + t;
    const uint32_t* from = other + (lane % 8 + lane / 16 * 8) * STEP + lane / 8 % 2 * 4;
#pragma unroll
    for (int n = 0; n < BLOCKS; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = 0.0f;
#pragma unroll
    for (int c = 0; c < ALL / 8; ++c) {
      uint32_t a[4];
      if constexpr (C::HELD) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = kept[c][i];
      } else {
        read_rows(a, own, STEP, c);
      }
#pragma unroll
      for (int n = 0; n < BLOCKS; n += 2) {
        uint32_t b[4];
        tfs_load_matrices(b, from + 8 * n * STEP + 8 * c);
        E::mma(s[n], a, E::operand(b[0]), E::operand(b[1]));
        E::mma(s[n + 1], a, E::operand(b[2]), E::operand(b[3]));
      }
    }
  }

  // What `what` makes of every element of a tile, or zeros beyond the last column.
  template <class What>
  __device__ __forceinline__ void each(float (&s)[BLOCKS][4], float (&d)[BLOCKS][4], int tile, What what) const {
#pragma unroll
    for (int n = 0; n < BLOCKS; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int own = row + i / 2 * 8, column = tile * TILE + 8 * n + 2 * t + i % 2;
        const int there = own < C::ROWS_ ? own : C::ROWS_ - 1;
        if (C::COLUMNS % TILE == 0 || column < C::COLUMNS)
          what(s[n][i], d[n][i], i / 2, C::BY_KEYS ? column : there, C::BY_KEYS ? there : column);
        else
          s[n][i] = d[n][i] = 0.0f;
      }
    }
  }

  // The warp's rows of a result. See tfs_add_rows for the order of columns.
  template <int COLUMNS, int V>
  __device__ __forceinline__ void store(const float (&o)[COLUMNS / 8][4], T* out, int step) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int own = row + 8 * half;
      if (own >= C::ROWS_) continue;
      T* to = out + (long long)own * step;
#pragma unroll
      for (int c = 0; c < COLUMNS / 8; c += V) {
        if constexpr (E::PER_WORD == 1) {
          constexpr int W = 2 * V < 4 ? 2 * V : 4;  // words of the widest access
          tfs_vector<uint32_t, 2 * V> words;
#pragma unroll
          for (int j = 0; j < V; ++j) {
            words.v[j] = __float_as_uint(o[c + j][2 * half]);
            words.v[V + j] = __float_as_uint(o[c + j][2 * half + 1]);
          }
#pragma unroll
          for (int j = 0; j < 2 * V; j += W)
            *reinterpret_cast<tfs_vector<uint32_t, W>*>(to + 8 * c + 2 * V * t + j) =
                *reinterpret_cast<tfs_vector<uint32_t, W>*>(words.v + j);
        } else {
          *reinterpret_cast<uint32_t*>(to + 8 * c + 2 * t) = E::pack(o[c][2 * half], o[c][2 * half + 1]);
        }
      }
    }
  }

  __device__ __forceinline__ void copy_tile(uint32_t* to, const T* other, const T* other_2, int tile) const {
    const int first = tile * TILE;
    tfs_copy_rows<E, THREADS, TILE, WORDS, STRIDE>(thread, to, other + (long long)first * C::OTHER_ROW, C::OTHER_ROW,
                                                   C::COLUMNS - first);
    tfs_copy_rows<E, THREADS, TILE, WORDS_2, STRIDE_2>(thread, to + TILE * STRIDE,
                                                       other_2 + (long long)first * C::OTHER_2_ROW, C::OTHER_2_ROW,
                                                       C::COLUMNS - first);
  }

  // Whether what the queries from `from` to before `to` do not see is 0. All threads of the block ask.
  template <class Most>
  __device__ __forceinline__ bool unseen_is_zero(int from, int to, Most most) const {
    bool far = true;
    for (int query = from + thread; query < to; query += THREADS)
      far = far && most(0.0f, outer, head, query) - C::masked() >= TFS_FAR;
    return C::Barrier::all(far);
  }

  // The tiles, `from` to before `to`, beyond which nothing of the rows of the block, the first of which is this, is seen.
  template <class Most> __device__ __forceinline__ void find_tiles(int first, int& from, int& to, Most most) const {
    from = 0, to = TILES;
    if constexpr (C::CAUSAL) {
      const int end = first + ROWS < C::ROWS_ ? first + ROWS : C::ROWS_;
      if constexpr (C::BY_KEYS) {  // queries from key - AHEAD on see a key
        const int least = first - C::AHEAD;
        const int tile = least < 0 ? 0 : least / TILE < TILES ? least / TILE : TILES - 1;
        if (tile > 0 && unseen_is_zero(0, tile * TILE, most)) from = tile;
      } else {
        const int tiles = tfs_tiles_up_to(end - 1 + C::AHEAD, TILE, TILES);
        if (tiles < TILES && unseen_is_zero(first, end, most)) to = tiles;
      }
    }
  }

  // shared: the block's own rows, then STAGES tiles of the others.
  template <class Most, class Summand, class Keep, class Element>
  __device__ __forceinline__ void run(int own_thread, int block, const T* own, const T* own_2, const T* other,
                                      const T* other_2, T* result, T* result_2, uint32_t* shared, Most most,
                                      Summand summand, Keep keep, Element element) {
    constexpr int PARTS = (C::ROWS_ + ROWS - 1) / ROWS, PASSES = C::BY_KEYS ? 1 : 2;
    constexpr int V = E::PER_WORD == 1 ? C::VECTOR : 1, V_2 = E::PER_WORD == 1 ? C::VECTOR_2 : 1;
    thread = own_thread;
    const int lane = thread % 32, warp = thread / 32, first = block % PARTS * ROWS;
    g = lane / 4, t = lane % 4, head = block / PARTS % C::HEADS, outer = block / PARTS / C::HEADS;
    row = first + 16 * warp + g;
    own += (long long)outer * C::OWN_OUTER + (long long)head * C::OWN_HEAD + (long long)first * C::OWN_ROW;
    own_2 += (long long)outer * C::OWN_2_OUTER + (long long)head * C::OWN_2_HEAD + (long long)first * C::OWN_2_ROW;
    other += (long long)outer * C::OTHER_OUTER + (long long)head * C::OTHER_HEAD;
    other_2 += (long long)outer * C::OTHER_2_OUTER + (long long)head * C::OTHER_2_HEAD;
    uint32_t* tiles = shared + OWN;
    tfs_copy_rows<E, THREADS, ROWS, WORDS, STRIDE>(thread, shared, own, C::OWN_ROW, C::ROWS_ - first);
    tfs_copy_rows<E, THREADS, ROWS, WORDS_2, STRIDE_2>(thread, shared + ROWS * STRIDE, own_2, C::OWN_2_ROW,
                                                       C::ROWS_ - first);
    int from, to;
    find_tiles(first, from, to, most);
    copy_tile(tiles, other, other_2, from);
    tfs_copy_commit();
    const uint32_t* rows = shared + 16 * warp * STRIDE;
    const uint32_t* rows_2 = shared + ROWS * STRIDE + 16 * warp * STRIDE_2;
    float o[C::DEPTH / 8][4], o_2[C::BY_KEYS ? C::WIDTH / 8 : 1][4], sum[2] = {0.0f, 0.0f};
#pragma unroll
    for (int n = 0; n < C::DEPTH / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) o[n][i] = 0.0f;
#pragma unroll
    for (int n = 0; n < (C::BY_KEYS ? C::WIDTH / 8 : 1); ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) o_2[n][i] = 0.0f;
    int tile = from;
#pragma unroll 1
    for (int turn = 0; turn < PASSES * (to - from); ++turn) {
      const bool first_pass = !C::BY_KEYS && turn < to - from;
      const int next = tile + 1 < to ? tile + 1 : from;
      tfs_copy_wait<0>();
      C::Barrier::wait();  // this tile is here, and nobody reads the other stage any more
      if (STAGES > 1 && turn + 1 < PASSES * (to - from)) copy_tile(tiles + (turn + 1) % STAGES * STAGE, other, other_2, next);
      tfs_copy_commit();
      const uint32_t* at = tiles + turn % STAGES * STAGE;
      const uint32_t* at_2 = at + TILE * STRIDE;
      if (C::HELD && turn == 0) {
#pragma unroll
        for (int c = 0; c < (C::HELD ? WORDS / 8 : 0); ++c) read_rows(held[c], rows, STRIDE, c);
#pragma unroll
        for (int c = 0; c < (C::HELD ? WORDS_2 / 8 : 0); ++c) read_rows(held_2[c], rows_2, STRIDE_2, c);
      }
      if (first + 16 * warp >= C::ROWS_) {  // the warp has no rows, and copies alone
        tile = next;
        continue;
      }
      float s[BLOCKS][4], d[BLOCKS][4];
      multiply<WORDS, STRIDE>(s, held, rows, at);
      multiply<WORDS_2, STRIDE_2>(d, held_2, rows_2, at_2);
      if constexpr (!C::BY_KEYS) {
        if (first_pass) {
          each(s, d, tile, [&](float& score, float& gradient, int half, int query, int key) {
            sum[half] += summand(score, gradient, outer, head, query, key);
          });
          if (tile + 1 == to) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 1);
              sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 2);
              if (t == 0 && row + 8 * half < C::ROWS_) keep(sum[half], outer, head, row + 8 * half);
            }
          }
        }
      }
      if (!first_pass) {
        each(s, d, tile, [&](float& score, float& gradient, int half, int query, int key) {
          element(score, gradient, sum[half], outer, head, query, key);
        });
        tfs_add_rows<E, TILE, WORDS, STRIDE, V>(o, d, at, g, t);
        if constexpr (C::BY_KEYS) tfs_add_rows<E, TILE, WORDS_2, STRIDE_2, V_2>(o_2, s, at_2, g, t);
      }
      tile = next;
    }
    store<C::DEPTH, V>(o, result + (long long)outer * C::RESULT_OUTER + (long long)head * C::RESULT_HEAD, C::RESULT_ROW);
    if constexpr (C::BY_KEYS)
      store<C::WIDTH, V_2>(o_2, result_2 + (long long)outer * C::RESULT_2_OUTER + (long long)head * C::RESULT_2_HEAD,
                           C::RESULT_2_ROW);
  }
};
