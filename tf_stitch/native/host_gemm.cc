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
using Strided = Eigen::Map<const Rows<T>, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;

// A stored matrix as [rows, cols]; `transposed`: it lies there as [cols, rows].
template <typename T>
Strided<T> View(const T* data, std::int64_t rows, std::int64_t cols, bool transposed) {
  return {data, rows, cols,
          {transposed ? 1 : cols, transposed ? rows : 1}};  // outer, inner stride
}

// Rows [first, last) of one product. Operands that lie transposed are copied block by block: one kernel serves all.
template <typename T>
void Block(const GemmSpec& g, const T* a, const T* b, const T* bias, T* out, std::int64_t first, std::int64_t last) {
  const Rows<T> left = View(a, g.m, g.k, g.transpose_a).middleRows(first, last - first);
  Eigen::Map<Rows<T>> result(out + first * g.n, last - first, g.n);
  if (g.transpose_b) {
    result.noalias() = left * Eigen::Map<const Rows<T>>(b, g.n, g.k).transpose();
  } else {
    result.noalias() = left * Eigen::Map<const Rows<T>>(b, g.k, g.n);
  }
  if (bias != nullptr) result.rowwise() += Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>>(bias, g.n);
  if (g.epilogue == Epilogue::kBiasRelu) result = result.cwiseMax(T(0));
}

template <typename T>
void Multiply(const GemmSpec& g, const T* a, const T* b, const T* bias, T* out, tsl::thread::ThreadPool* workers) {
  const std::int64_t blocks = (g.m + kRows - 1) / kRows;
  const std::int64_t cost = kRows * g.n * g.k / 8 + 1;  // cycles, about 16 operations each
  workers->ParallelFor(g.batch * blocks, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t one = i / blocks, first = i % blocks * kRows;
      Block(g, a + one * g.m * g.k, b + one * g.k * g.n, bias, out + one * g.m * g.n, first,
            std::min(first + kRows, g.m));
    }
  });
}

template <typename T>
void MultiplyTyped(const GemmSpec& g, void* const* arguments, tsl::thread::ThreadPool* workers) {
  const auto at = [&](int i) { return static_cast<const T*>(arguments[i]); };
  const bool has_bias = g.epilogue != Epilogue::kNone;
  Multiply(g, at(0), at(1), has_bias ? at(2) : nullptr, static_cast<T*>(arguments[g.arguments() - 1]), workers);
}

// Half types in float32: Eigen has no fast kernels for them.
template <typename Half>
void MultiplyWidened(const GemmSpec& g, void* const* arguments, tsl::thread::ThreadPool* workers) {
  const auto wide = [&](int i, std::int64_t count) {
    const Half* data = static_cast<const Half*>(arguments[i]);
    return std::vector<float>(data, data + count);
  };
  const std::vector<float> a = wide(0, g.batch * g.m * g.k), b = wide(1, g.batch * g.k * g.n);
  const std::vector<float> bias = g.epilogue == Epilogue::kNone ? std::vector<float>() : wide(2, g.n);
  std::vector<float> out(g.batch * g.m * g.n);
  Multiply(g, a.data(), b.data(), bias.empty() ? nullptr : bias.data(), out.data(), workers);
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
