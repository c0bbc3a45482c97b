// As attention.cu, one query to a block: what decodes a word at a time reads keys and values once and multiplies little, so
// neither tensor cores nor shared memory are of use. LANES threads share a row of k and v, 16 bytes each; such groups take
// keys in turns, STEPS of them under way together, and put their results together at the end, in a fixed order.
// float32 is multiplied as it is.
//
// C: as there, without what is of tiles; WARPS, LANES, STEPS.

template <class C> struct tfs_attention_single {
  using E = typename C::Element;
  using T = typename E::Storage;
  using Words = tfs_vector<uint32_t, 4>;
  static constexpr int VECTOR = 4 * E::PER_WORD, GROUPS = 32 * C::WARPS / C::LANES;
  static constexpr float LOG2_E = 1.44269504f;

  // `own` of a thread's words of a row, zeros beyond its end.
  template <int COLUMNS> static __device__ __forceinline__ Words read(const T* row, int lane) {
    if (COLUMNS != C::LANES * VECTOR && lane * VECTOR >= COLUMNS) return {{0, 0, 0, 0}};
    return *reinterpret_cast<const Words*>(row + lane * VECTOR);
  }
  static __device__ __forceinline__ float value(const Words& words, int i) {
    return E::value(words.v[i / E::PER_WORD], i % E::PER_WORD);
  }

  // shared: of each group its result, its largest score and its sum of exponentials.
  template <class Score, class Weigh, class Keep>
  static __device__ __forceinline__ void run(int thread, int block, const T* queries, const T* keys, const T* values,
                                             T* out, uint32_t* shared, Score score, Weigh weigh, Keep keep) {
    const int lane = thread % C::LANES, group = thread / C::LANES;
    const int query = block % C::QUERIES, head = block / C::QUERIES % C::HEADS, outer = block / C::QUERIES / C::HEADS;
    queries += (long long)outer * C::Q_OUTER + (long long)head * C::Q_HEAD + (long long)query * C::Q_ROW;
    keys += (long long)outer * C::K_OUTER + (long long)head * C::K_HEAD;
    values += (long long)outer * C::V_OUTER + (long long)head * C::V_HEAD;
    const Words q = read<C::DEPTH>(queries, lane);
    float most = -TFS_INF, sum = 0.0f, o[VECTOR];
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) o[j] = 0.0f;
#pragma unroll 1
    for (int first = 0; first < C::KEYS; first += GROUPS * C::STEPS) {
      Words k[C::STEPS], v[C::STEPS];
#pragma unroll
      for (int i = 0; i < C::STEPS; ++i) {
        const int key = first + i * GROUPS + group;
        k[i] = read<C::DEPTH>(keys + (long long)(key < C::KEYS ? key : C::KEYS - 1) * C::K_ROW, lane);
      }
#pragma unroll
      for (int i = 0; i < C::STEPS; ++i) {
        const int key = first + i * GROUPS + group;
        v[i] = read<C::WIDTH>(values + (long long)(key < C::KEYS ? key : C::KEYS - 1) * C::V_ROW, lane);
      }
      float s[C::STEPS], largest = most;
#pragma unroll
      for (int i = 0; i < C::STEPS; ++i) {
        const int key = first + i * GROUPS + group;
        s[i] = 0.0f;
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) s[i] += value(q, j) * value(k[i], j);
#pragma unroll
        for (int other = C::LANES / 2; other > 0; other /= 2) s[i] += __shfl_xor_sync(0xffffffffu, s[i], other);
        s[i] = key < C::KEYS ? score(s[i], outer, head, query, key) : -TFS_INF;
        largest = fmaxf(largest, s[i]);
      }
      const float base = largest == -TFS_INF ? 0.0f : largest;  // nothing but -inf so far: exponentials are 0, not NaN
      const float before = tfs_exp2_fast((most - base) * LOG2_E);
      most = largest;
      sum *= before;
#pragma unroll
      for (int j = 0; j < VECTOR; ++j) o[j] *= before;
#pragma unroll
      for (int i = 0; i < C::STEPS; ++i) {
        const int key = first + i * GROUPS + group;
        const float exponential = tfs_exp2_fast((s[i] - base) * LOG2_E);
        if (key >= C::KEYS) continue;  // of a row that is read again
        sum += exponential;
        const float weight = weigh(exponential, outer, head, query, key);
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) o[j] += weight * value(v[i], j);
      }
    }
    float* results = reinterpret_cast<float*>(shared);
    float* largest = results + GROUPS * C::WIDTH;
    float* sums = largest + GROUPS;
    if (lane * VECTOR < C::WIDTH) {
#pragma unroll
      for (int j = 0; j < VECTOR; j += 4)
        *reinterpret_cast<tfs_vector<float, 4>*>(results + group * C::WIDTH + lane * VECTOR + j)
            = {{o[j], o[j + 1], o[j + 2], o[j + 3]}};
    }
    if (lane == 0) largest[group] = most, sums[group] = sum;
    C::Barrier::wait();
    out += (long long)outer * C::O_OUTER + (long long)head * C::O_HEAD + (long long)query * C::O_ROW;
    for (int column = thread * 4; column < C::WIDTH; column += 4 * 32 * C::WARPS)
      store(out + column, results + column, largest, sums, [&](float most, float sum) {
        if (column == 0) keep(most, sum, outer, head, query);
      });
  }

  // Puts together four columns of what the groups have.
  template <class Keep>
  static __device__ __forceinline__ void store(T* out, const float* results, const float* largest, const float* sums,
                                               Keep keep) {
    float most = largest[0];
#pragma unroll
    for (int w = 1; w < GROUPS; ++w) most = fmaxf(most, largest[w]);
    const float base = most == -TFS_INF ? 0.0f : most;
    float sum = 0.0f, o[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int w = 0; w < GROUPS; ++w) {
      const float weight = tfs_exp2_fast((largest[w] - base) * LOG2_E);
      const auto part = *reinterpret_cast<const tfs_vector<float, 4>*>(results + w * C::WIDTH);
      sum += weight * sums[w];
#pragma unroll
      for (int j = 0; j < 4; ++j) o[j] += weight * part.v[j];
    }
    keep(most, sum);
    tfs_store_quotients<E>(out, o, sum);
  }
};
