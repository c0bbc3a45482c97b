// Blocks of matmuls for the instruction set that the file including this is compiled for. Eigen gets a name of its own
// there, since the linker would take one set's functions for another's.
#define Eigen TFS_EIGEN
#include "Eigen/Core"

#include "cpu/host_blocks.h"

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
void Matmul(const GemmSpec& g, const Stored<T>& left, const T* b, Range cols, Result<T>& result) {
  const Eigen::OuterStride<> stride(g.b.stride);
  if (g.b.transposed) {
    result.noalias() = left * Stored<T>(b + cols.first * g.b.stride, cols.size(), g.k, stride).transpose();
  } else {
    result.noalias() = left * Stored<T>(b + cols.first, g.k, cols.size(), stride);
  }
}

// Does to columns of a matmul what follows it; sums are of type `Sum`, what is added of T.
template <typename Sum, typename T>
void Finish(const GemmSpec& g, const Operands& at, std::int64_t one, Range rows, Range cols, Result<Sum>& result) {
  if (g.bias) {
    const T* bias = static_cast<const T*>(at.bias) + cols.first;
    result.rowwise() += Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>>(bias, cols.size()).template cast<Sum>();
  }
  if (g.addend) {
    const T* addend = static_cast<const T*>(at.addend) + (one * g.m + rows.first) * g.n + cols.first;
    result += Stored<T>(addend, rows.size(), cols.size(), Eigen::OuterStride<>(g.n)).template cast<Sum>();
  }
  Activate<Sum>(g.activation, result);
}

template <typename T>
Result<T> Out(const GemmSpec& g, const Operands& at, std::int64_t one, Range rows, Range cols) {
  T* out = static_cast<T*>(at.out) + Place(g.out, one) + rows.first * g.out.stride + cols.first;
  return Result<T>(out, rows.size(), cols.size(), Eigen::OuterStride<>(g.out.stride));
}

template <typename T>
void Block(const GemmSpec& g, const Operands& at, std::int64_t one, Range rows, Range cols) {
  const T* a = static_cast<const T*>(at.a) + Place(g.a, one);
  const T* b = static_cast<const T*>(at.b) + Place(g.b, one);
  Result<T> result = Out<T>(g, at, one, rows, cols);
  if (g.a.transposed) {  // copied, so that one kernel of Eigen serves both
    const Eigen::OuterStride<> stride(g.a.stride);
    const Rows<T> left = Stored<T>(a + rows.first, g.k, rows.size(), stride).transpose();
    Matmul<T>(g, Stored<T>(left.data(), rows.size(), g.k, Eigen::OuterStride<>(g.k)), b, cols, result);
  } else {
    Matmul<T>(g, Stored<T>(a + rows.first * g.a.stride, rows.size(), g.k, Eigen::OuterStride<>(g.a.stride)), b, cols,
               result);
  }
  Finish<T, T>(g, at, one, rows, cols, result);
}

}  // namespace
}  // namespace tf_stitch

#include "cpu/half_blocks_impl.h"

namespace tf_stitch {
namespace {

constexpr HostBlocks kBlocks{{&Block<float>, &RowSums<float, float>, &RowResult<float, float>},
                             {&Block<double>, &RowSums<double, double>, &RowResult<double, double>},
                             {&HalfBlock<Eigen::half>, &RowSums<float, Eigen::half>, &RowResult<float, Eigen::half>},
                             {&HalfBlock<Eigen::bfloat16>, &RowSums<float, Eigen::bfloat16>,
                              &RowResult<float, Eigen::bfloat16>}};

}  // namespace
}  // namespace tf_stitch
