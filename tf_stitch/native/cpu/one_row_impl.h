// One row by a matrix that is read once, for the instruction set that the file including this is compiled for.
#pragma once
#include <algorithm>
#include <cstdint>

namespace tf_stitch {
namespace {

constexpr int kLanes = 16;
constexpr std::int64_t kTogether = 4;  // rows of a matrix that are read side by side

template <typename T>
using Lanes = Eigen::Array<T, kLanes, 1>;

template <typename Sum, typename T>
Lanes<Sum> Wide(const T* x) {
  return Eigen::Map<const Lanes<T>>(x).template cast<Sum>();
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

// out += x[0] row 0 + x[apart] row `apart` + ..., for `count` rows.
template <int count, typename Sum, typename T>
void AddRows(const Sum* x, std::int64_t apart, const T* rows, std::int64_t stride, std::int64_t cols, Sum* out) {
  std::int64_t i = 0;
  for (; i + kLanes <= cols; i += kLanes) {
    Lanes<Sum> sum = Wide<Sum>(out + i);
    for (int row = 0; row < count; ++row) sum += x[row * apart] * Wide<Sum>(rows + row * apart * stride + i);
    Eigen::Map<Lanes<Sum>>(out + i) = sum;
  }
  for (; i < cols; ++i) {
    for (int row = 0; row < count; ++row) out[i] += x[row * apart] * static_cast<Sum>(rows[row * apart * stride + i]);
  }
}

// out = x[0] row 0 + x[1] row 1 + ... Rows that are far apart are added together: memory gives several such streams
// 1.6 times as fast as neighbouring rows of 768 (two cores of an EPYC).
template <typename Sum, typename T>
void SumRows(const Sum* x, const T* rows, std::int64_t stride, std::int64_t terms, std::int64_t cols, Sum* out) {
  std::fill(out, out + cols, Sum(0));
  const std::int64_t apart = terms / kTogether;
  for (std::int64_t i = 0; i < apart; ++i) AddRows<kTogether>(x + i, apart, rows + i * stride, stride, cols, out);
  for (std::int64_t i = apart * kTogether; i < terms; ++i) AddRows<1>(x + i, 0, rows + i * stride, stride, cols, out);
}

// Some terms of the sums of a row: `left` is memory for these terms, `sums` for the columns.
template <typename Sum, typename T>
void RowSums(const GemmSpec& g, const Operands& at, std::int64_t one, Range terms, void* left, void* sums) {
  const T* a = static_cast<const T*>(at.a) + Place(g.a, one);
  const T* b = static_cast<const T*>(at.b) + Place(g.b, one) + terms.first * g.b.stride;
  Sum* const x = static_cast<Sum*>(left);
  const std::int64_t apart = g.a.transposed ? g.a.stride : 1;
  for (std::int64_t i = 0; i < terms.size(); ++i) x[i] = static_cast<Sum>(a[(terms.first + i) * apart]);
  SumRows(x, b, g.b.stride, terms.size(), g.n, static_cast<Sum*>(sums));
}

// Adds up such sums of `pieces` of the terms in their order, into the first, and does what follows the matmul.
template <typename Sum, typename T>
void RowResult(const GemmSpec& g, const Operands& at, std::int64_t one, void* sums, std::int64_t pieces) {
  Sum* const first = static_cast<Sum*>(sums);
  const Eigen::OuterStride<> stride(g.n);
  Result<Sum> result(first, 1, g.n, stride);
  for (std::int64_t i = 1; i < pieces; ++i) result += Stored<Sum>(first + i * g.n, 1, g.n, stride);
  Finish<Sum, T>(g, at, one, {0, 1}, {0, g.n}, result);
  Out<T>(g, at, one, {0, 1}, {0, g.n}) = result.template cast<T>();
}

}  // namespace
}  // namespace tf_stitch
