// Products on the CPU: Eigen's kernel on blocks of rows, spread over TensorFlow's pool.
#include <algorithm>
#include <vector>

#include "Eigen/Core"
#include "gemm.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/platform/threadpool.h"

namespace tf_stitch {
namespace {

constexpr std::int64_t kRows = 64;  // of a block

template <typename T>
using Rows = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using Stored = Eigen::Map<const Rows<T>, 0, Eigen::OuterStride<>>;
template <typename T>
using Strided = Eigen::Map<const Rows<T>, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;

// A stored matrix as [rows, cols].
template <typename T>
Strided<T> View(const T* data, std::int64_t rows, std::int64_t cols, const MatrixLayout& stored) {
  return {data, rows, cols,
          {stored.transposed ? 1 : stored.stride, stored.transposed ? stored.stride : 1}};  // outer, inner stride
}

template <typename T>
struct Operands {
  const T *a, *b, *bias, *addend;
  T* out;
};

template <typename T, typename Matrix>
void Activate(Activation activation, Matrix&& x) {
  if (activation == Activation::kRelu) {
    x = x.template cwiseMax<Eigen::PropagateNaN>(T(0));
  } else if (activation == Activation::kGelu) {
    const auto v = x.array();
    x = (T(0.5) * v * (T(1) + (T(0.7978845608028654) * (v + T(0.044715) * v * v * v)).tanh())).matrix();
  }
}

// Rows [first, last) of product `one`. Operands that lie transposed are copied block by block: one kernel serves all.
template <typename T>
void Block(const GemmSpec& g, const Operands<T>& at, std::int64_t one, std::int64_t first, std::int64_t last) {
  const Rows<T> left = View(at.a + one * g.a.step, g.m, g.k, g.a).middleRows(first, last - first);
  const T* b = at.b + one * g.b.step;
  const Eigen::OuterStride<> stride(g.b.stride);
  Eigen::Map<Rows<T>, 0, Eigen::OuterStride<>> result(at.out + one * g.out.step + first * g.out.stride, last - first,
                                                      g.n, Eigen::OuterStride<>(g.out.stride));
  if (g.b.transposed) {
    result.noalias() = left * Stored<T>(b, g.n, g.k, stride).transpose();
  } else {
    result.noalias() = left * Stored<T>(b, g.k, g.n, stride);
  }
  if (g.bias) result.rowwise() += Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>>(at.bias, g.n);
  if (g.addend) result += Eigen::Map<const Rows<T>>(at.addend + (one * g.m + first) * g.n, last - first, g.n);
  Activate<T>(g.activation, result);
}

template <typename T>
void Multiply(const GemmSpec& g, const Operands<T>& at, tsl::thread::ThreadPool* workers) {
  const std::int64_t blocks = (g.m + kRows - 1) / kRows;
  const std::int64_t cost = kRows * g.n * g.k / 8 + 1;  // cycles, about 16 operations each
  workers->ParallelFor(g.batch * blocks, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % blocks * kRows;
      Block(g, at, i / blocks, first, std::min(first + kRows, g.m));
    }
  });
}

template <typename T>
void MultiplyTyped(const GemmSpec& g, void* const* arguments, tsl::thread::ThreadPool* workers) {
  const auto at = [&](int i) { return static_cast<const T*>(arguments[i]); };
  Multiply<T>(g, {at(0), at(1), g.bias ? at(2) : nullptr, g.addend ? at(g.addend_argument()) : nullptr,
                  static_cast<T*>(arguments[g.arguments() - 1])}, workers);
}

// Half types in float32: Eigen has no fast kernels for them.
template <typename Half>
void MultiplyWidened(const GemmSpec& g, void* const* arguments, tsl::thread::ThreadPool* workers) {
  const auto wide = [&](bool there, int i, std::int64_t count) {
    const Half* data = static_cast<const Half*>(arguments[i]);
    return there ? std::vector<float>(data, data + count) : std::vector<float>();
  };
  const std::vector<float> a = wide(true, 0, g.batch * g.m * g.k), b = wide(true, 1, g.batch * g.k * g.n);
  const std::vector<float> bias = wide(g.bias, 2, g.n);
  const std::vector<float> addend = wide(g.addend, g.addend_argument(), g.batch * g.m * g.n);
  std::vector<float> out(g.batch * g.m * g.n);
  Multiply<float>(g, {a.data(), b.data(), bias.data(), addend.data(), out.data()}, workers);
  std::transform(out.begin(), out.end(), static_cast<Half*>(arguments[g.arguments() - 1]),
                 [](float x) { return static_cast<Half>(x); });
}

}  // namespace

bool RunHostGemm(const GemmSpec& spec, void* const* arguments, tsl::thread::ThreadPool* workers) {
  switch (spec.type) {
    case tensorflow::DT_FLOAT:
      MultiplyTyped<float>(spec, arguments, workers);
      return true;
    case tensorflow::DT_DOUBLE:
      MultiplyTyped<double>(spec, arguments, workers);
      return true;
    case tensorflow::DT_HALF:
      MultiplyWidened<Eigen::half>(spec, arguments, workers);
      return true;
    case tensorflow::DT_BFLOAT16:
      MultiplyWidened<Eigen::bfloat16>(spec, arguments, workers);
      return true;
    default:
      return false;
  }
}

}  // namespace tf_stitch
