// Matmuls on the CPU: blocks of rows and columns, spread over TensorFlow's pool.
#include <algorithm>

#include "op/gemm.h"
#include "cpu/host_blocks.h"
#include "cpu/shared_loop.h"
#include "op/element_types.h"

namespace tf_stitch {
namespace {

constexpr std::int64_t kRows = 64;  // of a block
constexpr std::int64_t kColumns = 64;  // of a block, at least

using FindBlocks = const HostBlocks*();

const HostBlocks* From(FindBlocks* find) { return find == nullptr ? nullptr : find(); }

// Null in a library that was built for a better processor.
const HostBlocks* BestBlocks() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (avx512 && From(&Avx512Blocks) != nullptr) return Avx512Blocks();
  if (avx2 && From(&Avx2Blocks) != nullptr) return Avx2Blocks();
#endif
  return From(&BaselineBlocks);
}

const HostBlocks& Blocks() {
  static constexpr HostBlocks kNone{};
  static const HostBlocks* const best = BestBlocks();
  return best == nullptr ? kNone : *best;
}

// Columns of a block: all of them, unless there are too few blocks of rows for all threads.
std::int64_t ColumnsOfBlock(const GemmSpec& g, std::int64_t row_blocks, std::int64_t threads) {
  const std::int64_t wanted = std::max<std::int64_t>(threads / (g.batch * row_blocks), 1);
  return std::min(std::max((g.n + wanted - 1) / wanted, kColumns), g.n);
}

// Null for an element type that there is none for.
MatmulBlock BlockFor(int type) {
  switch (type) {
    case kFloat:
      return Blocks().f32;
    case kDouble:
      return Blocks().f64;
    case kHalf:
      return Blocks().f16;
    case kBfloat16:
      return Blocks().bf16;
    default:
      return nullptr;
  }
}

}  // namespace

bool RunHostGemm(const GemmSpec& g, void* const* arguments, tsl::thread::ThreadPool* workers) {
  const MatmulBlock block = BlockFor(g.type);
  if (block == nullptr) return false;
  const Operands at{arguments[0], arguments[1], g.bias ? arguments[2] : nullptr,
                    g.addend ? arguments[AddendArgument(g)] : nullptr, arguments[Arguments(g) - 1]};
  const std::int64_t row_blocks = (g.m + kRows - 1) / kRows;
  const std::int64_t columns = ColumnsOfBlock(g, row_blocks, NumThreads(*workers));
  const std::int64_t column_blocks = (g.n + columns - 1) / columns;
  const std::int64_t cost = std::min(kRows, g.m) * columns * g.k / 16 + 1;  // cycles, about 32 operations each
  SharedLoop::Run(workers, g.batch * row_blocks * column_blocks, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / column_blocks % row_blocks * kRows, column = i % column_blocks * columns;
      block(g, at, i / column_blocks / row_blocks, {row, std::min(row + kRows, g.m)},
            {column, std::min(column + columns, g.n)});
    }
  });
  return true;
}

}  // namespace tf_stitch
