// softmax(score(q k^T)) v of every head in one kernel (FlashAttention-2, arXiv:2307.08691): scores and probabilities stay
// in registers. A block has QUERY_WARPS x KEY_WARPS warps. A warp has 16 queries, and of each tile of keys WARP_KEYS; the
// warps of the same queries put their results together at the end, in a fixed order.
//
// Fragments of mma.sync (PTX ISA, "Matrix fragments for mma.m16n8k8", m16n8k16), in words of 32 bits; lane = 4 g + t:
//   a: (row g, word t), (g + 8, t), (g, t + 4), (g + 8, t + 4); b: (word t, column g), (t + 4, g);
//   c: (row g, column 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1).
// The order of the terms of a matmul is free: as long as both operands have it, a thread takes neighbouring words where
// the instruction speaks of t and t + 4. So it reads vectors of q and k, and probabilities are an operand of the second
// matmul where the first left them. The order of v's columns is free, too: float32 reads vectors of them.
//
// C (emit/attention.py writes it): Element; HEADS, QUERIES, KEYS; DEPTH, WIDTH: columns of k, v;
// QUERY_WARPS, KEY_WARPS, WARP_KEYS; K_VECTOR, V_VECTOR, K_STRIDE, V_STRIDE: words of vectors and of rows in shared memory;
// Q_..., K_..., V_..., O_...: elements between what is OUTER, between HEADs, between ROWs. CAUSAL: the score of every key
// above its query + AHEAD is masked().
// score(s, outer, head, query, key) is what softmax gets of a matmul; weigh(w, outer, head, query, key) what weighs
// values of a multiple of a probability, as that multiple; keep(most, sum, outer, head, query) is told of what became of a
// query's scores.

template <class C> struct tfs_attention {
  using E = typename C::Element;
  using T = typename E::Storage;
  static constexpr int THREADS = 32 * C::QUERY_WARPS * C::KEY_WARPS, ROWS = 16 * C::QUERY_WARPS;
  static constexpr int TILE = C::KEY_WARPS * C::WARP_KEYS, TILES = (C::KEYS + TILE - 1) / TILE;
  static constexpr int STAGE = TILE * (C::K_STRIDE + C::V_STRIDE), STAGES = TILES > 1 ? 2 : 1;
  static constexpr int K_WORDS = C::DEPTH / E::PER_WORD, V_WORDS = C::WIDTH / E::PER_WORD;
  static constexpr int O_STRIDE = C::WIDTH + 4;  // floats of a row of results in shared memory

  // The thread's number, its place in its warp, its warp, and what it keeps: 16 queries of q, the result so far, and for rows g and g + 8 the largest score
  // and the sum of exponentials (of the thread's own columns).
  int thread, g, t, query_warp, key_warp;
  uint32_t q[K_WORDS / 8][4];
  float o[C::WIDTH / 8][4], most[2], sum[2];

  // Keys and values of a tile, to a stage.
  __device__ __forceinline__ void copy_keys(uint32_t* stage, const T* keys, const T* values, int tile) const {
    const int first = tile * TILE, there = C::KEYS - first;
    tfs_copy_rows<E, THREADS, TILE, K_WORDS, C::K_STRIDE>(thread, stage, keys + (long long)first * C::K_ROW, C::K_ROW, there);
    tfs_copy_rows<E, THREADS, TILE, V_WORDS, C::V_STRIDE>(thread, stage + TILE * C::K_STRIDE,
                                                          values + (long long)first * C::V_ROW, C::V_ROW, there);
    tfs_copy_commit();
  }

  // Tiles up to the one with the last key that a query of the block, whose first is this, does not have masked.
  __device__ __forceinline__ static int tiles_of(int first) {
    if (!C::CAUSAL) return TILES;
    const int last = (first + ROWS < C::QUERIES ? first + ROWS : C::QUERIES) - 1 + C::AHEAD;
    return tfs_tiles_up_to(last, TILE, TILES);
  }

  // Whether exponentials of masked scores are 0 for each query of the block, relative to its largest score so far.
  __device__ __forceinline__ bool rest_is_zero(int first) const {
    bool far = true;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      far = far && (first + 16 * query_warp + g + 8 * half >= C::QUERIES || most[half] - C::masked() >= TFS_FAR);
    return C::Barrier::all(far);
  }

  __device__ __forceinline__ void read_queries(const T* rows, int first) {
    constexpr int V = C::K_VECTOR;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first + 8 * half;
      const uint32_t* row = reinterpret_cast<const uint32_t*>(
          rows + (long long)(query < C::QUERIES ? query : C::QUERIES - 1) * C::Q_ROW);
#pragma unroll
      for (int c = 0; c < K_WORDS / (4 * V); ++c) {
        const auto words = *reinterpret_cast<const tfs_vector<uint32_t, V>*>(row + (4 * c + t) * V);
#pragma unroll
        for (int i = 0; i < V; ++i) q[c * V / 2 + i / 2][half + 2 * (i % 2)] = E::operand(words.v[i]);
      }
    }
  }

  // s = q k^T for the warp's keys; `k`: their rows in shared memory.
  __device__ __forceinline__ void multiply_keys(float (&s)[C::WARP_KEYS / 8][4], const uint32_t* k) const {
    constexpr int V = C::K_VECTOR;
#pragma unroll
    for (int n = 0; n < C::WARP_KEYS / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = 0.0f;
#pragma unroll
    for (int c = 0; c < K_WORDS / (4 * V); ++c) {
#pragma unroll
      for (int n = 0; n < C::WARP_KEYS / 8; ++n) {
        const auto words = *reinterpret_cast<const tfs_vector<uint32_t, V>*>(k + (8 * n + g) * C::K_STRIDE + (4 * c + t) * V);
#pragma unroll
        for (int i = 0; i < V; i += 2)
          E::mma(s[n], q[c * V / 2 + i / 2], E::operand(words.v[i]), E::operand(words.v[i + 1]));
      }
    }
  }

  // Makes of every element of a tile what `what` makes of it, or `beyond` of those beyond the last key.
  template <class What>
  __device__ __forceinline__ void each(float (&s)[C::WARP_KEYS / 8][4], int own, int tile, What what, float beyond) const {
#pragma unroll
    for (int n = 0; n < C::WARP_KEYS / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int query = own + i / 2 * 8, key = tile * TILE + key_warp * C::WARP_KEYS + 8 * n + 2 * t + i % 2;
        const bool there = C::KEYS % TILE == 0 || key < C::KEYS;
        s[n][i] = there ? what(s[n][i], query < C::QUERIES ? query : C::QUERIES - 1, key) : beyond;
      }
    }
  }

  // Turns scores into exponentials, relative to the largest score so far, and scales what came before to that.
  __device__ __forceinline__ void take_softmax(float (&s)[C::WARP_KEYS / 8][4]) {
    constexpr float LOG2_E = 1.44269504f;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = most[half];
#pragma unroll
      for (int n = 0; n < C::WARP_KEYS / 8; ++n) largest = fmaxf(largest, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
      const float base = largest == -TFS_INF ? 0.0f : largest;  // nothing but -inf so far: exponentials are 0, not NaN
      const float before = tfs_exp2_fast((most[half] - base) * LOG2_E);
      most[half] = largest;
      sum[half] *= before;
#pragma unroll
      for (int n = 0; n < C::WIDTH / 8; ++n) { o[n][2 * half] *= before; o[n][2 * half + 1] *= before; }
#pragma unroll
      for (int n = 0; n < C::WARP_KEYS / 8; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          s[n][i] = tfs_exp2_fast((s[n][i] - base) * LOG2_E);
          sum[half] += s[n][i];
        }
      }
    }
  }

  // Sums of all the warp's columns, of the threads' own ones.
  __device__ __forceinline__ void add_up() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 1);
      sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 2);
    }
  }

  // The warp's results into shared memory.
  __device__ __forceinline__ void put(float* results) const {
    constexpr int V = E::PER_WORD == 1 ? C::V_VECTOR : 1, W = 2 * V < 4 ? 2 * V : 4;  // W: floats of the widest access
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = (key_warp * C::QUERY_WARPS + query_warp) * 16 + g + 8 * half;
#pragma unroll
      for (int c = 0; c < C::WIDTH / (8 * V); ++c) {
        tfs_vector<float, 2 * V> columns;
#pragma unroll
        for (int j = 0; j < V; ++j) {
          columns.v[j] = o[c * V + j][2 * half];
          columns.v[V + j] = o[c * V + j][2 * half + 1];
        }
        float* to = results + row * O_STRIDE + 8 * V * c + 2 * V * t;
#pragma unroll
        for (int j = 0; j < 2 * V; j += W)
          *reinterpret_cast<tfs_vector<float, W>*>(to + j) = *reinterpret_cast<tfs_vector<float, W>*>(columns.v + j);
      }
    }
  }

  // The warp's results, largest scores and sums into shared memory.
  __device__ __forceinline__ void share(float* results, float* largest, float* sums) {
    add_up();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = (key_warp * C::QUERY_WARPS + query_warp) * 16 + g + 8 * half;
      largest[row] = most[half];
      sums[row] = sum[half];
    }
    put(results);
  }

  // Stores the results of rows that no other warp has a part of: through shared memory, for the sake of wide accesses.
  template <class Keep>
  __device__ __forceinline__ void store_own(T* out, int outer, int head, int first, float* results, Keep keep) {
    add_up();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first + 16 * query_warp + g + 8 * half;
      if (t == 0 && query < C::QUERIES) keep(most[half], sum[half], outer, head, query);
      const float inverse = 1.0f / sum[half];
#pragma unroll
      for (int n = 0; n < C::WIDTH / 8; ++n) { o[n][2 * half] *= inverse; o[n][2 * half + 1] *= inverse; }
    }
    put(results);
    __syncwarp();
    for (int i = thread % 32; i < 16 * (C::WIDTH / 8); i += 32) {
      const int row = 16 * query_warp + i / (C::WIDTH / 8), column = i % (C::WIDTH / 8) * 8;
      if (first + row < C::QUERIES)
        tfs_store_eight<E>(out + (long long)(first + row) * C::O_ROW + column, results + row * O_STRIDE + column);
    }
  }

  // Puts together what the warps of the same queries have, and stores it; `keep` is told each query's largest score and
  // its sum of exponentials.
  template <class Keep>
  __device__ __forceinline__ void store(T* out, int outer, int head, int first, const float* results,
                                        const float* largest, const float* sums, Keep keep) const {
    constexpr float LOG2_E = 1.44269504f;
    for (int i = thread; i < ROWS * (C::WIDTH / 4); i += THREADS) {
      const int row = i / (C::WIDTH / 4), column = i % (C::WIDTH / 4) * 4;
      float most = largest[row];
#pragma unroll
      for (int w = 1; w < C::KEY_WARPS; ++w) most = fmaxf(most, largest[w * ROWS + row]);
      const float base = most == -TFS_INF ? 0.0f : most;
      float sum = 0.0f, o[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int w = 0; w < C::KEY_WARPS; ++w) {
        const float weight = tfs_exp2_fast((largest[w * ROWS + row] - base) * LOG2_E);
        const auto part = *reinterpret_cast<const tfs_vector<float, 4>*>(results + (w * ROWS + row) * O_STRIDE + column);
        sum += weight * sums[w * ROWS + row];
#pragma unroll
        for (int j = 0; j < 4; ++j) o[j] += weight * part.v[j];
      }
      if (first + row < C::QUERIES) {
        if (column == 0) keep(most, sum, outer, head, first + row);
        tfs_store_quotients<E>(out + (long long)(first + row) * C::O_ROW + column, o, sum);
      }
    }
  }

  // shared: STAGES stages of a tile of k and v, later the results of all warps.
  template <class Score, class Weigh, class Keep>
  __device__ __forceinline__ void run(int own_thread, int block, const T* queries, const T* keys, const T* values, T* out,
                                      uint32_t* shared, Score score, Weigh weigh, Keep keep) {
    constexpr int BLOCKS = (C::QUERIES + ROWS - 1) / ROWS;
    thread = own_thread;
    const int lane = thread % 32, warp = thread / 32;
    g = lane / 4, t = lane % 4, query_warp = warp % C::QUERY_WARPS, key_warp = warp / C::QUERY_WARPS;
    const int first = block % BLOCKS * ROWS, head = block / BLOCKS % C::HEADS, outer = block / BLOCKS / C::HEADS;
    keys += (long long)outer * C::K_OUTER + (long long)head * C::K_HEAD;
    values += (long long)outer * C::V_OUTER + (long long)head * C::V_HEAD;
    copy_keys(shared, keys, values, 0);
    const int own = first + 16 * query_warp + g;  // the first of the thread's two queries
    read_queries(queries + (long long)outer * C::Q_OUTER + (long long)head * C::Q_HEAD, own);
    most[0] = most[1] = -TFS_INF;
    sum[0] = sum[1] = 0.0f;
#pragma unroll
    for (int n = 0; n < C::WIDTH / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) o[n][i] = 0.0f;
    int end = tiles_of(first);
#pragma unroll 1
    for (int tile = 0; tile < end; ++tile) {
      tfs_copy_wait<0>();
      C::Barrier::wait();  // this tile is here, and nobody reads the other stage any more
      if (tile + 1 < end) copy_keys(shared + (tile + 1) % STAGES * STAGE, keys, values, tile + 1);
      const uint32_t* k = shared + tile % STAGES * STAGE;
      const uint32_t* v = k + TILE * C::K_STRIDE;
      if (first + 16 * query_warp < C::QUERIES) {  // else the warp has no queries, and copies alone
        float s[C::WARP_KEYS / 8][4];
        multiply_keys(s, k + key_warp * C::WARP_KEYS * C::K_STRIDE);
        each(s, own, tile, [&](float value, int query, int key) { return score(value, outer, head, query, key); }, -TFS_INF);
        take_softmax(s);
        each(s, own, tile, [&](float weight, int query, int key) { return weigh(weight, outer, head, query, key); }, 0.0f);
        tfs_add_rows<E, C::WARP_KEYS, V_WORDS, C::V_STRIDE, C::V_VECTOR>(o, s, v + key_warp * C::WARP_KEYS * C::V_STRIDE, g, t);
      }
      if (C::CAUSAL && tile + 1 == end && end < TILES && !rest_is_zero(first)) {
        copy_keys(shared + (tile + 1) % STAGES * STAGE, keys, values, tile + 1);
        end = TILES;
      }
    }
    C::Barrier::wait();  // nobody reads keys and values any more
    float* results = reinterpret_cast<float*>(shared);
    out += (long long)outer * C::O_OUTER + (long long)head * C::O_HEAD;
    if constexpr (C::KEY_WARPS == 1) {
      store_own(out, outer, head, first, results, keep);
    } else {
      float* largest = results + C::KEY_WARPS * ROWS * O_STRIDE;
      float* sums = largest + C::KEY_WARPS * ROWS;
      share(results, largest, sums);
      C::Barrier::wait();
      store(out, outer, head, first, results, largest, sums, keep);
    }
  }
};
