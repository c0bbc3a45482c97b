// Which blocks of matmuls go to which threads, with blocks that are recorded instead of multiplied and a pool that
// counts what it is given. Prints lines for test_host_gemm.py:
// helpers (of both loops, where pieces of terms are added up by a second one) / threads, and the work.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "cpu/host_blocks.h"
#include "cpu/workers.h"
#include "op/element_types.h"

namespace {

int threads = 1, helpers = 0;
std::int64_t results = 0;
std::vector<tf_stitch::Range> ranges;

void Record(const tf_stitch::GemmSpec&, const tf_stitch::Operands&, std::int64_t, tf_stitch::Range,
            tf_stitch::Range cols) {
  ranges.push_back(cols);
}

void RecordTerms(const tf_stitch::GemmSpec&, const tf_stitch::Operands&, std::int64_t, tf_stitch::Range terms, void*,
                 void*) {
  ranges.push_back(terms);
}

void RecordResult(const tf_stitch::GemmSpec&, const tf_stitch::Operands&, std::int64_t, void*, std::int64_t pieces,
                  tf_stitch::Range) {
  results = pieces;
}

constexpr tf_stitch::TypeBlocks kBlocks{&Record, &RecordTerms, &RecordResult};
constexpr tf_stitch::HostBlocks kRecord{kBlocks, kBlocks, kBlocks, kBlocks};

void Say(const char* name, const tf_stitch::GemmSpec& g) {
  std::printf("%s:", name);
  void* arguments[3] = {};
  for (int now : {1, 2, 8}) {
    threads = now, helpers = 0, results = 0;
    ranges.clear();
    tf_stitch::RunHostGemm(g, arguments, reinterpret_cast<tsl::thread::ThreadPool*>(&threads));
    std::int64_t widest = 0;
    for (const tf_stitch::Range& range : ranges) widest = std::max(widest, range.size());
    std::printf(" %d/%d, %zu of %lld %s%s", helpers, threads, ranges.size(), static_cast<long long>(widest),
                results == 0 ? "columns" : results == static_cast<std::int64_t>(ranges.size()) ? "terms" : "wrong",
                now == 8 ? "\n" : ";");
  }
}

tf_stitch::GemmSpec Matmul(int type, std::int64_t m, std::int64_t k, std::int64_t n, bool transposed) {
  tf_stitch::GemmSpec g{};
  g.type = type, g.batch = 1, g.m = m, g.k = k, g.n = n, g.b.transposed = transposed;
  return g;
}

}  // namespace

namespace tf_stitch {

const HostBlocks* BaselineBlocks() { return &kRecord; }
const HostBlocks* Avx2Blocks() { return &kRecord; }
const HostBlocks* Avx512Blocks() { return &kRecord; }

int NumThreads(const tsl::thread::ThreadPool&) { return threads; }
void Schedule(tsl::thread::ThreadPool*, std::function<void()> work) { ++helpers, work(); }

}  // namespace tf_stitch

int main() {
  using namespace tf_stitch;
  Say("a row by what a core keeps", Matmul(kFloat, 1, 256, 256, false));
  Say("a row by what memory has", Matmul(kFloat, 1, 768, 768, false));
  Say("in halves", Matmul(kBfloat16, 1, 768, 768, false));
  Say("transposed", Matmul(kFloat, 1, 768, 3072, true));
  Say("long rows", Matmul(kFloat, 1, 768, 65536, false));
  Say("8 rows", Matmul(kFloat, 8, 768, 768, false));
  Say("16 rows", Matmul(kFloat, 16, 768, 768, false));
  Say("128 rows", Matmul(kFloat, 128, 256, 256, false));
}
