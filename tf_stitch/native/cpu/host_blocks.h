// Blocks of matmuls on the CPU, by Eigen, compiled once for each instruction set: TensorFlow's wheel asks for none beyond
// the oldest x86-64, and a library in the cache has to run wherever the folder is carried.
#pragma once
#include <cstdint>

#include "op/gemm.h"

namespace tf_stitch {

struct Operands {  // elements of the matmul's type
  const void *a, *b, *bias, *addend;
  void* out;
};

struct Range {
  std::int64_t first, last;
  std::int64_t size() const { return last - first; }
};

// Elements from the beginning of memory to matrix `one`.
inline std::int64_t Place(const MatrixLayout& stored, std::int64_t one) {
  return stored.offset + one / stored.group * stored.step + one % stored.group * stored.group_step;
}

// Rows and columns of the result of matmul `one`.
using MatmulBlock = void (*)(const GemmSpec&, const Operands&, std::int64_t one, Range rows, Range cols);

// Some terms of the sums of matmul `one`, which is of few rows and a right matrix that is not transposed. For each row
// `left` is memory for as many sums as terms, `sums` for as many as columns: float64 for float64, else float32.
using RowSumsBlock = void (*)(const GemmSpec&, const Operands&, std::int64_t one, Range terms, void* left, void* sums);
// Some columns of its result, of such sums behind each other.
using RowResultBlock = void (*)(const GemmSpec&, const Operands&, std::int64_t one, void* sums, std::int64_t pieces,
                                Range cols);

struct TypeBlocks {
  MatmulBlock block;
  RowSumsBlock row_sums;
  RowResultBlock row_result;
};

struct HostBlocks {  // by element type
  TypeBlocks f32, f64, f16, bf16;
};

// Null where the compiler cannot make them; they must not run on a processor without these instructions. Weak: a library
// that is built where it is used has those for the processor there (native/instruction_sets.py).
__attribute__((weak)) const HostBlocks* BaselineBlocks();
__attribute__((weak)) const HostBlocks* Avx2Blocks();
__attribute__((weak)) const HostBlocks* Avx512Blocks();

}  // namespace tf_stitch
