// Products on the CPU: blocks of rows and columns, spread over TensorFlow's pool.
#include <algorithm>
#include <vector>

#include "Eigen/Core"
#include "gemm.h"
#include "host_blocks.h"
#include "shared_loop.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow/core/platform/threadpool.h"

namespace tf_stitch {
namespace {

constexpr std::int64_t kRows = 64;  // of a block
constexpr std::int64_t kColumns = 64;  // of a block, at least

const HostBlocks& BestBlocks() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (avx512 && Avx512Blocks() != nullptr) return *Avx512Blocks();
  if (avx2 && Avx2Blocks() != nullptr) return *Avx2Blocks();
#endif
  return *BaselineBlocks();
}

const HostBlocks& Blocks() {
  static const HostBlocks& best = BestBlocks();
  return best;
}

// Columns of a block: all of them, unless there are too few blocks of rows for all threads.
std::int64_t ColumnsOfBlock(const GemmSpec& g, std::int64_t row_blocks, std::int64_t threads) {
  const std::int64_t wanted = std::max<std::int64_t>(threads / (g.batch * row_blocks), 1);
  return std::min(std::max((g.n + wanted - 1) / wanted, kColumns), g.n);
}

template <typename T>
void Multiply(const GemmSpec& g, const Operands<T>& at, BlockOf<T> block, tsl::thread::ThreadPool* workers) {
  const std::int64_t row_blocks = (g.m + kRows - 1) / kRows;
  const std::int64_t columns = ColumnsOfBlock(g, row_blocks, workers->NumThreads());
  const std::int64_t column_blocks = (g.n + columns - 1) / columns;
  const std::int64_t cost = std::min(kRows, g.m) * columns * g.k / 16 + 1;  // cycles, about 32 operations each
  SharedLoop::Run(workers, g.batch * row_blocks * column_blocks, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / column_blocks % row_blocks * kRows, column = i % column_blocks * columns;
      block(g, at, i / column_blocks / row_blocks, {row, std::min(row + kRows, g.m)},
            {column, std::min(column + columns, g.n)});
    }
  });
}

template <typename T>
void MultiplyTyped(const GemmSpec& g, void* const* arguments, BlockOf<T> block, tsl::thread::ThreadPool* workers) {
  const auto at = [&](int i) { return static_cast<const T*>(arguments[i]); };
  Multiply<T>(g, {at(0), at(1), g.bias ? at(2) : nullptr, g.addend ? at(g.addend_argument()) : nullptr,
                  static_cast<T*>(arguments[g.arguments() - 1])}, block, workers);
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
  Multiply<float>(g, {a.data(), b.data(), bias.data(), addend.data(), out.data()}, Blocks().f32, workers);
  std::transform(out.begin(), out.end(), static_cast<Half*>(arguments[g.arguments() - 1]),
                 [](float x) { return static_cast<Half>(x); });
}

}  // namespace

bool RunHostGemm(const GemmSpec& spec, void* const* arguments, tsl::thread::ThreadPool* workers) {
  switch (spec.type) {
    case tensorflow::DT_FLOAT:
      MultiplyTyped<float>(spec, arguments, Blocks().f32, workers);
      return true;
    case tensorflow::DT_DOUBLE:
      MultiplyTyped<double>(spec, arguments, Blocks().f64, workers);
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
