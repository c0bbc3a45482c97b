// Tiles of matmuls in float32 (kernel_ir/tile_product.py). Sums of a few rows and of one or two vectors of columns stay
// in registers; the compiler makes vectors of the loops over columns.
#if defined(__AVX512F__)
#define TFS_LANES 16
#define TFS_TILE_ROWS 8
#elif defined(__AVX__)
#define TFS_LANES 8
#define TFS_TILE_ROWS 6
#else
#define TFS_LANES 4
#define TFS_TILE_ROWS 6
#endif

#if defined(__FMA__) || defined(__aarch64__)
#define TFS_MULTIPLY_ADD(x, y, sum) __builtin_fmaf(x, y, sum)
#else  // a function of the C library
#define TFS_MULTIPLY_ADD(x, y, sum) ((sum) + (x) * (y))
#endif

// Terms that are added one after the other, before their sum is added to those of the terms before.
#define TFS_TERMS 104

#define TFS_TILE(rows, vectors)                                                                                    \
  static void tfs_tile_##rows##_##vectors(const float* restrict a, int64_t a_row, int64_t a_term,                  \
                                          const float* restrict b, int64_t b_term, int64_t terms,                  \
                                          float* restrict out, int64_t width) {                                    \
    for (int64_t first = 0; first < terms; first += TFS_TERMS) {                                                   \
      const int64_t last = first + TFS_TERMS < terms ? first + TFS_TERMS : terms;                                  \
      float sums[rows][vectors * TFS_LANES];                                                                       \
      for (int r = 0; r < rows; ++r)                                                                               \
        for (int c = 0; c < vectors * TFS_LANES; ++c) sums[r][c] = 0.0f;                                           \
      for (int64_t t = first; t < last; ++t) {                                                                     \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; ++r) {                                                   \
          const float left = a[r * a_row + t * a_term];                                                            \
          _Pragma("omp simd") for (int c = 0; c < vectors * TFS_LANES; ++c)                                        \
              sums[r][c] = TFS_MULTIPLY_ADD(left, b[t * b_term + c], sums[r][c]);                                  \
        }                                                                                                          \
      }                                                                                                            \
      for (int r = 0; r < rows; ++r)                                                                               \
        for (int c = 0; c < vectors * TFS_LANES; ++c)                                                              \
          out[r * width + c] = first ? out[r * width + c] + sums[r][c] : sums[r][c];                               \
    }                                                                                                              \
  }

// Some rows of one or two vectors of columns.
#define TFS_ROWS(vectors)                                                                                          \
  static void tfs_rows_##vectors(const float* a, int64_t a_row, int64_t a_term, const float* b, int64_t b_term,    \
                                 int64_t terms, float* out, int64_t width, int64_t rows) {                         \
    int64_t row = 0;                                                                                               \
    TFS_TILES(TFS_TILE_ROWS, vectors)                                                                              \
    TFS_TILES(4, vectors)                                                                                          \
    TFS_TILES(2, vectors)                                                                                          \
    TFS_TILES(1, vectors)                                                                                          \
  }
#define TFS_TILES(count, vectors) TFS_TILES_OF(count, vectors)
#define TFS_TILES_OF(count, vectors)                                                                               \
  for (; row + count <= rows; row += count)                                                                        \
    tfs_tile_##count##_##vectors(a + row * a_row, a_row, a_term, b, b_term, terms, out + row * width, width);

#define TFS_SIZES(count) TFS_SIZES_OF(count)
#define TFS_SIZES_OF(count) TFS_TILE(count, 2) TFS_TILE(count, 1)
TFS_SIZES(TFS_TILE_ROWS)
TFS_SIZES(4)
TFS_SIZES(2)
TFS_SIZES(1)
TFS_ROWS(2)
TFS_ROWS(1)

// out[i, j] = the sum of a[i, t] b[t, j]; a vector of columns, at least. The last one ends with the row.
static void tfs_multiply(const float* a, int64_t a_row, int64_t a_term, const float* b, int64_t b_term, int64_t terms,
                         float* out, int64_t width, int64_t rows, int64_t columns) {
  int64_t column = 0;
  for (; column + 2 * TFS_LANES <= columns; column += 2 * TFS_LANES)
    tfs_rows_2(a, a_row, a_term, b + column, b_term, terms, out + column, width, rows);
  for (; column < columns; column += TFS_LANES) {
    const int64_t first = column + TFS_LANES <= columns ? column : columns - TFS_LANES;
    tfs_rows_1(a, a_row, a_term, b + first, b_term, terms, out + first, width, rows);
  }
}
