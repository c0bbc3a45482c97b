// Blocks of products for the instruction set that the file including this is compiled for. Eigen gets a name of its own
// there, since the linker would take one set's functions for another's.
#define Eigen TFS_EIGEN
#include "Eigen/Core"

#include "host_blocks.h"

namespace tf_stitch {
namespace {

template <typename T>
using Rows = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using Stored = Eigen::Map<const Rows<T>, 0, Eigen::OuterStride<>>;
template <typename T>
using Result = Eigen::Map<Rows<T>, 0, Eigen::OuterStride<>>;

template <typename T>
void Activate(Activation activation, Result<T>& x) {
  if (activation == Activation::kRelu) {
    x = x.template cwiseMax<Eigen::PropagateNaN>(T(0));
  } else if (activation == Activation::kGelu) {
    const auto v = x.array();
    x = (T(0.5) * v * (T(1) + (T(0.7978845608028654) * (v + T(0.044715) * v * v * v)).tanh())).matrix();
  }
}

template <typename T>
void Product(const GemmSpec& g, const Stored<T>& left, const T* b, Range cols, Result<T>& result) {
  const Eigen::OuterStride<> stride(g.b.stride);
  if (g.b.transposed) {
    result.noalias() = left * Stored<T>(b + cols.first * g.b.stride, cols.size(), g.k, stride).transpose();
  } else {
    result.noalias() = left * Stored<T>(b + cols.first, g.k, cols.size(), stride);
  }
}

template <typename T>
void Block(const GemmSpec& g, const Operands<T>& at, std::int64_t one, Range rows, Range cols) {
  const T* a = at.a + one * g.a.step;
  const T* b = at.b + one * g.b.step;
  Result<T> result(at.out + one * g.out.step + rows.first * g.out.stride + cols.first, rows.size(), cols.size(),
                   Eigen::OuterStride<>(g.out.stride));
  if (g.a.transposed) {  // copied, so that one kernel of Eigen serves both
    const Eigen::OuterStride<> stride(g.a.stride);
    const Rows<T> left = Stored<T>(a + rows.first, g.k, rows.size(), stride).transpose();
    Product<T>(g, Stored<T>(left.data(), rows.size(), g.k, Eigen::OuterStride<>(g.k)), b, cols, result);
  } else {
    Product<T>(g, Stored<T>(a + rows.first * g.a.stride, rows.size(), g.k, Eigen::OuterStride<>(g.a.stride)), b, cols,
               result);
  }
  if (g.bias) {
    result.rowwise() += Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>>(at.bias + cols.first, cols.size());
  }
  if (g.addend) {
    result += Stored<T>(at.addend + (one * g.m + rows.first) * g.n + cols.first, rows.size(), cols.size(),
                        Eigen::OuterStride<>(g.n));
  }
  Activate<T>(g.activation, result);
}

constexpr HostBlocks kBlocks{&Block<float>, &Block<double>};

}  // namespace
}  // namespace tf_stitch
