// attention_ptx.cu on a CPU: mma.sync and ldmatrix are what the PTX ISA says of their fragments, written down from there
// once more. Part of cuda_on_cpu.h.
#pragma once

inline float tfs_exp2_fast(float x) { return exp2f(x); }
inline void tfs_copy_async(void* to, const void* from, bool there) { tfs_copy_begin(to, from, there); }
inline void tfs_copy_commit() { tfs_copies_commit(); }
template <int N> inline void tfs_copy_wait() { tfs_copies_await(N); }

// c += a b, a: [16, K], b: [K, 8]; `value(word, i)` is value i of an operand's word, PER of them in each.
template <int PER, class Value>
inline void tfs_emulated_mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Value value) {
  const uint32_t own[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const auto all = tfs_exchange(own, sizeof own);
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const auto word_of = [all](int lane, int i) { return ((const uint32_t*)all[lane])[i]; };
  for (int i = 0; i < 4; ++i) {
    const int row = g + 8 * (i / 2), column = 2 * t + i % 2;
    for (int k = 0; k < 8 * PER; ++k) {
      const int word = k / PER, part = k % PER;  // of the row of eight words that four lanes hold, two each
      const uint32_t left = word_of(row % 8 * 4 + word % 4, row / 8 + word / 4 * 2);
      const uint32_t right = word_of(column * 4 + word % 4, 4 + word / 4);
      c[i] += value(left, part) * value(right, part);
    }
  }
}
inline void tfs_load_matrices(uint32_t (&matrices)[4], const void* row) {
  if ((uintptr_t)row % 16) tfs_fail("a row of a matrix is not aligned");
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const auto all = tfs_exchange(&row, sizeof row);
  for (int m = 0; m < 4; ++m) {
    const uint16_t* own;
    memcpy(&own, all[8 * m + g], sizeof own);
    matrices[m] = own[2 * t] | (uint32_t)own[2 * t + 1] << 16;
  }
}
inline void tfs_load_transposed(uint32_t (&matrices)[4], const void* row) {
  if ((uintptr_t)row % 16) tfs_fail("a row of a matrix is not aligned");
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const auto all = tfs_exchange(&row, sizeof row);
  for (int m = 0; m < 4; ++m) {
    matrices[m] = 0;
    for (int i = 0; i < 2; ++i) {
      const uint16_t* other;
      memcpy(&other, all[8 * m + 2 * t + i], sizeof other);
      matrices[m] |= (uint32_t)other[g] << (16 * i);
    }
  }
}

// warpgroup_ptx.cu. Lines have 128 bytes, eight of them behind each other; the address of a 16-byte part has bits 7 to 9
// added to bits 4 to 6 without carry.
inline uint32_t tfs_shared_address(const void* shared) { return (uint32_t)(uintptr_t)shared; }
struct tfs_shared_matrix {
  const unsigned char* start;
  int part, eight;  // bytes
  tfs_shared_matrix(const uint32_t* start, int part_words, int eight_words)
      : start((const unsigned char*)start), part(4 * part_words), eight(4 * eight_words) {}
  tfs_shared_matrix operator+(int words) const {
    tfs_shared_matrix other = *this;
    other.start += 4 * words;
    return other;
  }
  uint16_t at(int beside, int term, bool by_terms) const {
    const unsigned char* its = by_terms ? start + beside / 64 * part + term / 8 * eight + term % 8 * 128 + beside % 64 * 2
                                        : start + beside / 8 * eight + beside % 8 * 128 + term * 2;
    const uintptr_t address = (uintptr_t)its;
    uint16_t value;
    memcpy(&value, (const void*)(address ^ (address >> 7 & 7) << 4), sizeof value);
    return value;
  }
};
template <class Element, int Columns> struct tfs_warpgroup_multiply {
  template <int A_BY_TERMS, int B_BY_TERMS>
  static void run(float (&c)[Columns / 2], tfs_shared_matrix a, tfs_shared_matrix b) {
    const int thread = threadIdx.x % 128, line = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
    for (int i = 0; i < Columns / 2; ++i)
      for (int term = 0; term < 16; ++term)
        c[i] += Element::value(a.at(line + i / 2 % 2 * 8, term, A_BY_TERMS), 0)
                * Element::value(b.at(i / 4 * 8 + column + i % 2, term, B_BY_TERMS), 0);
  }
};
inline void tfs_shared_for_tensor_cores() {}
inline void tfs_warpgroup_begin() {}
inline void tfs_warpgroup_commit() {}
// A warpgroup's four warps multiply together.
template <int N> inline void tfs_warpgroup_wait() { tfs_partial_barrier(8 + threadIdx.x / 128, 128, 0, TFS_COUNT); }

struct tfs_tf32 {
  using Storage = float;
  static constexpr int PER_WORD = 1;
  static float value(uint32_t word, int) { return __uint_as_float(word); }
  static uint32_t operand(uint32_t word) { return (word + 0x1000u) & ~0x1fffu; }
  static void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    tfs_emulated_mma<1>(c, a, b0, b1, [](uint32_t word, int) {
      if (word & 0x1fff) tfs_fail("an operand is not rounded");
      return __uint_as_float(word);
    });
  }
};
struct tfs_half {
  using Storage = uint16_t;
  static constexpr int PER_WORD = 2;
  static uint32_t operand(uint32_t word) { return word; }
};
struct tfs_f16 : tfs_half {
  static constexpr bool IS_BFLOAT16 = false;
  static float value(uint32_t word, int i) { return tfs_from_half((uint16_t)(word >> 16 * i)); }
  static uint32_t pack(float low, float high) {
    return tfs_to_half(low) | (uint32_t)tfs_to_half(high) << 16;
  }
  static void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    tfs_emulated_mma<2>(c, a, b0, b1, [](uint32_t word, int i) { return tfs_from_half((uint16_t)(word >> 16 * i)); });
  }
};
struct tfs_bf16 : tfs_half {
  static constexpr bool IS_BFLOAT16 = true;
  static float value(uint32_t word, int i) { return __uint_as_float(word >> 16 * i << 16); }
  static uint32_t pack(float low, float high) {
    const auto rounded = [](float f) { const uint32_t b = __float_as_uint(f); return (b + 0x7fff + (b >> 16 & 1)) >> 16; };
    return rounded(low) | rounded(high) << 16;
  }
  static void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    tfs_emulated_mma<2>(c, a, b0, b1, [](uint32_t word, int i) { return __uint_as_float(word >> 16 * i << 16); });
  }
};
