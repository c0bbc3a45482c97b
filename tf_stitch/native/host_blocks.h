// Blocks of products on the CPU, by Eigen, compiled once for each instruction set: TensorFlow's wheel asks for none beyond
// the oldest x86-64, and a library in the cache has to run wherever the folder is carried.
#pragma once
#include <cstdint>

#include "gemm.h"

namespace tf_stitch {

template <typename T>
struct Operands {
  const T *a, *b, *bias, *addend;
  T* out;
};

struct Range {
  std::int64_t first, last;
  std::int64_t size() const { return last - first; }
};

// Rows and columns of the result of product `one`.
template <typename T>
using BlockOf = void (*)(const GemmSpec&, const Operands<T>&, std::int64_t one, Range rows, Range cols);

struct HostBlocks {
  BlockOf<float> f32;
  BlockOf<double> f64;
};

// Null where the compiler cannot make them; they must not run on a processor without these instructions.
const HostBlocks* BaselineBlocks();
const HostBlocks* Avx2Blocks();
const HostBlocks* Avx512Blocks();

}  // namespace tf_stitch
