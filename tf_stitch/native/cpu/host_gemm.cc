// Matmuls on the CPU: blocks of rows and columns, spread over TensorFlow's pool.
#include <algorithm>
#include <vector>

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
constexpr std::int64_t kFewRows = 8;  // with 16 Eigen, which copies the right matrix first, is faster
constexpr std::int64_t kPieceBytes = 128 << 10, kPieceTerms = 8, kMostPieces = 16;  // of the terms of few rows' sums
constexpr std::int64_t kResultColumns = 4096;  // whose pieces are added up at a time

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
  const bool pieces = g.b.transposed && ReadCycles(g, g.n) > MultiplyCycles(g, g.n);
  const std::int64_t wanted = std::max<std::int64_t>((pieces ? kPieces : 1) * threads / (g.batch * row_blocks), 1);
  return std::min(std::max((g.n + wanted - 1) / wanted, kColumns), g.n);
}

// Empty for an element type that there is none for.
TypeBlocks BlocksFor(int type) {
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
      return {};
  }
}

// Pieces that the terms of few rows' sums are cut into, so that threads read whole rows of the right matrix; 1 for
// other matmuls. As many for any number of threads, which results may not depend on.
std::int64_t PiecesOfTerms(const GemmSpec& g) {
  const std::int64_t bytes = g.k * g.n * ElementBytes(g.type);
  if (g.m > kFewRows || g.b.transposed || bytes <= kCached) return 1;
  return std::max<std::int64_t>(std::min({bytes / kPieceBytes, g.k / (kPieceTerms * g.m), kMostPieces}), 1);
}

void RunFewRows(const GemmSpec& g, const Operands& at, const TypeBlocks& blocks, std::int64_t pieces,
                tsl::thread::ThreadPool* workers) {
  const std::int64_t sum_bytes = g.type == kDouble ? 8 : 4;
  const std::int64_t sums = g.m * (g.k + pieces * g.n);  // of a matmul: its left matrix, then the pieces
  thread_local std::vector<double> memory;
  const std::size_t wanted = (g.batch * sums * sum_bytes + 7) / 8;
  if (memory.size() < wanted) memory.resize(wanted);
  char* const all = reinterpret_cast<char*>(memory.data());
  const auto place = [&](std::int64_t one, std::int64_t i) { return all + (one * sums + g.m * i) * sum_bytes; };
  SharedLoop::Run(workers, g.batch * pieces, ReadCycles(g, g.n) / pieces, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t one = i / pieces, piece = i % pieces;
      const Range terms{g.k * piece / pieces, g.k * (piece + 1) / pieces};
      blocks.row_sums(g, at, one, terms, place(one, terms.first), place(one, g.k + piece * g.n));
    }
  });
  const std::int64_t blocks_of_columns = (g.n + kResultColumns - 1) / kResultColumns;
  const std::int64_t cost = g.m * pieces * std::min(kResultColumns, g.n) * sum_bytes / kReadBytes;
  SharedLoop::Run(workers, g.batch * blocks_of_columns, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t one = i / blocks_of_columns, column = i % blocks_of_columns * kResultColumns;
      blocks.row_result(g, at, one, place(one, g.k), pieces, {column, std::min(column + kResultColumns, g.n)});
    }
  });
}

}  // namespace

bool RunHostGemm(const GemmSpec& g, void* const* arguments, tsl::thread::ThreadPool* workers) {
  const TypeBlocks blocks = BlocksFor(g.type);
  if (blocks.block == nullptr) return false;
  const Operands at{arguments[0], arguments[1], g.bias ? arguments[2] : nullptr,
                    g.addend ? arguments[AddendArgument(g)] : nullptr, arguments[Arguments(g) - 1]};
  if (const std::int64_t pieces = PiecesOfTerms(g); pieces > 1) {
    RunFewRows(g, at, blocks, pieces, workers);
    return true;
  }
  const std::int64_t row_blocks = (g.m + kRows - 1) / kRows;
  const std::int64_t columns = ColumnsOfBlock(g, row_blocks, NumThreads(*workers));
  const std::int64_t column_blocks = (g.n + columns - 1) / columns;
  const std::int64_t cost = std::max(MultiplyCycles(g, columns), ReadCycles(g, columns)) + 1;
  SharedLoop::Run(workers, g.batch * row_blocks * column_blocks, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / column_blocks % row_blocks * kRows, column = i % column_blocks * columns;
      blocks.block(g, at, i / column_blocks / row_blocks, {row, std::min(row + kRows, g.m)},
                   {column, std::min(column + columns, g.n)});
    }
  });
  return true;
}

}  // namespace tf_stitch
