// Few rows by a matrix that is read once, for the instruction set that the file including this is compiled for.
#pragma once
#include <algorithm>
#include <cstdint>

namespace tf_stitch {
namespace {

constexpr int kLanes = 16;
constexpr std::int64_t kTogether = 4;  // rows of a matrix that are read side by side
constexpr std::int64_t kSumsAtOnce = 4096;  // of a row, which a core's cache keeps

template <typename T>
using Lanes = Eigen::Array<T, kLanes, 1>;

template <typename Sum, typename T>
Lanes<Sum> Wide(const T* x) {
  return Eigen::Map<const Lanes<T>>(x).template cast<Sum>();
}

// out += x[0] row 0 + x[apart] row `apart` + ..., for `count` rows; so for each of `m` rows of x, which are `terms` apart.
template <int count, typename Sum, typename T>
void AddRows(std::int64_t m, const Sum* x, std::int64_t terms, std::int64_t apart, const T* rows, std::int64_t stride,
             std::int64_t cols, Sum* out, std::int64_t out_stride) {
  std::int64_t i = 0;
  for (; i + kLanes <= cols; i += kLanes) {
    Lanes<Sum> read[count];
    for (int row = 0; row < count; ++row) read[row] = Wide<Sum>(rows + row * apart * stride + i);
    for (std::int64_t j = 0; j < m; ++j) {
      Lanes<Sum> sum = Wide<Sum>(out + j * out_stride + i);
      for (int row = 0; row < count; ++row) sum += x[j * terms + row * apart] * read[row];
      Eigen::Map<Lanes<Sum>>(out + j * out_stride + i) = sum;
    }
  }
  for (; i < cols; ++i) {
    for (std::int64_t j = 0; j < m; ++j) {
      for (int row = 0; row < count; ++row) {
        out[j * out_stride + i] += x[j * terms + row * apart] * static_cast<Sum>(rows[row * apart * stride + i]);
      }
    }
  }
}

// out = x[0] row 0 + x[1] row 1 + ..., so for each of `m` rows of x. Rows that are far apart are added together: memory
// gives several such streams 1.6 times as fast as neighbouring rows of 768 (two cores of an EPYC).
template <typename Sum, typename T>
void SumRows(std::int64_t m, const Sum* x, const T* rows, std::int64_t stride, std::int64_t terms, std::int64_t cols,
             Sum* out) {
  const std::int64_t apart = terms / kTogether;
  for (std::int64_t first = 0; first < cols; first += kSumsAtOnce) {
    const std::int64_t now = std::min(kSumsAtOnce, cols - first);
    const T* const from = rows + first;
    Sum* const to = out + first;
    for (std::int64_t j = 0; j < m; ++j) std::fill(to + j * cols, to + j * cols + now, Sum(0));
    for (std::int64_t i = 0; i < apart; ++i) {
      AddRows<kTogether>(m, x + i, terms, apart, from + i * stride, stride, now, to, cols);
    }
    for (std::int64_t i = apart * kTogether; i < terms; ++i) {
      AddRows<1>(m, x + i, terms, 0, from + i * stride, stride, now, to, cols);
    }
  }
}

// Some terms of the sums of all rows: `left` is memory for these terms of each row, `sums` for the columns of each.
template <typename Sum, typename T>
void RowSums(const GemmSpec& g, const Operands& at, std::int64_t one, Range terms, void* left, void* sums) {
  const T* a = static_cast<const T*>(at.a) + Place(g.a, one);
  const T* b = static_cast<const T*>(at.b) + Place(g.b, one) + terms.first * g.b.stride;
  Sum* const x = static_cast<Sum*>(left);
  const std::int64_t row = g.a.transposed ? 1 : g.a.stride, term = g.a.transposed ? g.a.stride : 1;
  for (std::int64_t j = 0; j < g.m; ++j) {
    for (std::int64_t i = 0; i < terms.size(); ++i) {
      x[j * terms.size() + i] = static_cast<Sum>(a[j * row + (terms.first + i) * term]);
    }
  }
  SumRows(g.m, x, b, g.b.stride, terms.size(), g.n, static_cast<Sum*>(sums));
}

// Adds up such sums of `pieces` of the terms in their order, into the first, and does what follows the matmul.
template <typename Sum, typename T>
void RowResult(const GemmSpec& g, const Operands& at, std::int64_t one, void* sums, std::int64_t pieces, Range cols) {
  Sum* const first = static_cast<Sum*>(sums) + cols.first;
  const Eigen::OuterStride<> stride(g.n);
  Result<Sum> result(first, g.m, cols.size(), stride);
  for (std::int64_t i = 1; i < pieces; ++i) result += Stored<Sum>(first + i * g.m * g.n, g.m, cols.size(), stride);
  Finish<Sum, T>(g, at, one, {0, g.m}, cols, result);
  Out<T>(g, at, one, {0, g.m}, cols) = result.template cast<T>();
}

}  // namespace
}  // namespace tf_stitch
