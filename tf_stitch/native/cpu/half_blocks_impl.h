// Blocks of matmuls of half types, for the instruction set that the file including this is compiled for: multiplied,
// added up and finished in float32, and rounded once. Eigen has no fast kernels for them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "cpu/few_rows_impl.h"

namespace tf_stitch {
namespace {

constexpr std::int64_t kWidened = 1 << 15;  // elements of a matrix that are float32 at a time: they stay in a core's cache

// Rows of halves, `stride` apart, as rows of float32 without gaps.
template <typename Half>
void Widen(const Half* x, std::int64_t stride, std::int64_t rows, std::int64_t cols, float* wide) {
  for (; rows > 0; --rows, x += stride, wide += cols) {
    std::int64_t i = 0;
    for (; i + kLanes <= cols; i += kLanes) Eigen::Map<Lanes<float>>(wide + i) = Wide<float>(x + i);
    for (; i < cols; ++i) wide[i] = static_cast<float>(x[i]);
  }
}

// out[i] = the matmul of x and row i of `rows`, for `count` rows.
template <int count, typename Sum, typename T>
void Dots(const Sum* x, const T* rows, std::int64_t stride, std::int64_t terms, Sum* out) {
  Lanes<Sum> sums[count];
  for (Lanes<Sum>& sum : sums) sum.setZero();
  std::int64_t i = 0;
  for (; i + kLanes <= terms; i += kLanes) {
    const Lanes<Sum> now = Wide<Sum>(x + i);
    for (int row = 0; row < count; ++row) sums[row] += now * Wide<Sum>(rows + row * stride + i);
  }
  for (int row = 0; row < count; ++row) out[row] = sums[row].sum();
  for (; i < terms; ++i) {
    for (int row = 0; row < count; ++row) out[row] += x[i] * static_cast<Sum>(rows[row * stride + i]);
  }
}

// One row of a matmul. Its right matrix is read once, so elements become float32 on the way.
template <typename Half>
void OneRow(const GemmSpec& g, const float* x, const Half* b, std::int64_t columns, float* out) {
  std::int64_t i = 0;
  if (g.b.transposed) {
    for (; i + kTogether <= columns; i += kTogether) Dots<kTogether>(x, b + i * g.b.stride, g.b.stride, g.k, out + i);
    for (; i < columns; ++i) Dots<1>(x, b + i * g.b.stride, g.b.stride, g.k, out + i);
  } else {
    SumRows(1, x, b, g.b.stride, g.k, columns, out);
  }
}

// Some columns of a matmul of `left`, in float32 and without gaps; `right` is memory for as many of the right matrix.
template <typename Half>
void WidenedColumns(const GemmSpec& g, const Stored<float>& left, const Half* b, float* right, Result<float>& result) {
  GemmSpec wide = g;
  wide.b.stride = g.b.transposed ? g.k : result.cols();
  Widen(b, g.b.stride, g.b.transposed ? result.cols() : g.k, wide.b.stride, right);
  Matmul<float>(wide, left, right, {0, result.cols()}, result);
}

template <typename Half>
void HalfBlock(const GemmSpec& g, const Operands& at, std::int64_t one, Range rows, Range cols) {
  const Half* a = static_cast<const Half*>(at.a) + Place(g.a, one);
  const Half* b = static_cast<const Half*>(at.b) + Place(g.b, one);
  const std::int64_t m = rows.size();
  const bool is_row = m == 1;
  const std::int64_t most = is_row ? cols.size() : std::min(std::max<std::int64_t>(kWidened / g.k, kLanes), cols.size());
  thread_local std::vector<float> memory;
  const std::size_t wanted = m * g.k + m * most + (is_row ? 0 : g.k * most);
  if (memory.size() < wanted) memory.resize(wanted);
  float *left = memory.data(), *sums = left + m * g.k, *right = sums + m * most;
  const Eigen::OuterStride<> left_stride(g.k);
  if (g.a.transposed) {
    const Stored<Half> stored(a + rows.first, g.k, m, Eigen::OuterStride<>(g.a.stride));
    Result<float>(left, m, g.k, left_stride) = stored.transpose().template cast<float>();
  } else {
    Widen(a + rows.first * g.a.stride, g.a.stride, m, g.k, left);
  }
  for (Range now{cols.first, 0}; now.first < cols.last; now.first = now.last) {
    now.last = std::min(now.first + most, cols.last);
    const Half* columns = b + now.first * (g.b.transposed ? g.b.stride : 1);
    Result<float> result(sums, m, now.size(), Eigen::OuterStride<>(now.size()));
    if (is_row) {
      OneRow(g, left, columns, now.size(), sums);
    } else {
      WidenedColumns(g, Stored<float>(left, m, g.k, left_stride), columns, right, result);
    }
    Finish<float, Half>(g, at, one, rows, now, result);
    Out<Half>(g, at, one, rows, now) = result.template cast<Half>();
  }
}

}  // namespace
}  // namespace tf_stitch
