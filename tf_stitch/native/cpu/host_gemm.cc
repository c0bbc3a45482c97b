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
constexpr std::int64_t kProducts = 16;  // of a cycle: about 32 operations
constexpr std::int64_t kCached = 512 << 10;  // bytes of a right matrix that a core's own cache keeps
constexpr std::int64_t kReadBytes = 4;  // of a cycle, from memory: 8 to 12 GB/s a core
constexpr std::int64_t kPieces = 4;  // of a thread, where all wait for memory: who is late leaves some to others
constexpr std::int64_t kLongRow = 2048;  // elements in a row that memory gives as fast as all of them

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

std::int64_t MultiplyCycles(const GemmSpec& g, std::int64_t columns) {
  return std::min(kRows, g.m) * columns * g.k / kProducts;
}

// Of columns of the right matrix, which the blocks of rows behind the first find in a cache.
std::int64_t ReadCycles(const GemmSpec& g, std::int64_t columns) {
  const std::int64_t bytes = g.k * ElementBytes(g.type);
  return g.m > kRows || g.n * bytes <= kCached ? 0 : columns * bytes / kReadBytes;
}

// Columns of a block: all of them, unless there are too few blocks of rows for all threads.
std::int64_t ColumnsOfBlock(const GemmSpec& g, std::int64_t row_blocks, std::int64_t threads) {
  const bool waits = ReadCycles(g, g.n) > MultiplyCycles(g, g.n);
  const bool pieces = waits && (g.b.transposed || g.n >= kLongRow * kPieces * threads);
  const std::int64_t wanted = std::max<std::int64_t>((pieces ? kPieces : 1) * threads / (g.batch * row_blocks), 1);
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
  const std::int64_t cost = std::max(MultiplyCycles(g, columns), ReadCycles(g, columns)) + 1;
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
