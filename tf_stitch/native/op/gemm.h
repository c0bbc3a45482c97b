// Matrix products of a region: by cuBLASLt on a GPU, by Eigen on the CPU.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "cuda/cuda_driver.h"

namespace tsl::thread {
class ThreadPool;
}

namespace tf_stitch {

enum class Activation : int { kNone = 0, kRelu = 1, kGelu = 2 };  // gelu by tanh

// How matrices [rows, cols] lie in memory: contiguous along the columns, or along the rows if `transposed`.
struct MatrixLayout {
  bool transposed;
  std::int64_t stride;  // elements from one stored row to the next
  std::int64_t step;    // elements from one matrix to the next

  bool operator<(const MatrixLayout& other) const {
    return std::tie(transposed, stride, step) < std::tie(other.transposed, other.stride, other.step);
  }
};

// activation(a b + bias + addend): `batch` products [m, k] x [k, n] -> [m, n], the bias a vector of n that is added to
// every row, the addend [batch, m, n], contiguous. Arguments are a, b, the bias, the addend, those two if there are
// any, and the result.
struct GemmSpec {
  int type;  // tensorflow::DataType
  std::int64_t batch, m, n, k;
  MatrixLayout a, b, out;  // `out` is not transposed
  bool bias, addend;
  Activation activation;

  auto Tie() const { return std::tie(type, batch, m, n, k, a, b, out, bias, addend, activation); }
  bool operator<(const GemmSpec& other) const { return Tie() < other.Tie(); }
  int arguments() const { return 3 + bias + addend; }
  int addend_argument() const { return 2 + bias; }
};

// Bytes of scratch memory that the products of a region may use on a GPU, together, if a run touches `bytes` of memory:
// a part of that, and no more than cuBLAS advises for Hopper. TensorFlow's own products take the library's memory, which
// its allocator does not know. A power of two: regions of about one size share products.
std::size_t GemmWorkspaceBytes(std::int64_t bytes);

constexpr std::uint32_t kGemmAlignment = 16;  // bytes: the most that a library's kernel asks of an address

// A product ready to run in one context. Thread-safe.
class GpuGemm {
 public:
  virtual ~GpuGemm() = default;

  // Enqueues it, by the library's first proposal at first. The first run that is a `trial` tries all of them on these
  // buffers and keeps the fastest, unless TensorFlow has to be deterministic: it waits for the stream. `workspace` has
  // workspace_bytes(). "" or an error.
  virtual std::string Run(CUstream stream, void* const* arguments, void* workspace, bool trial) = 0;

  // Whether its kernel is chosen for good: all runs only enqueue.
  virtual bool settled() const = 0;

  // What its kernel needs; until it is settled, the most that one of the proposals needs.
  virtual std::size_t workspace_bytes() const = 0;
};

// The product for `context`, shared by all who ask for it; TF32 and determinism as TensorFlow has them now. `cold`: an
// operand that is found in device memory rather than in the cache, as bits. `unaligned`: arguments whose addresses are
// multiples of their elements' size only, as bits; others are of kGemmAlignment. `workspace`: bytes of scratch memory
// that it may use.
// Returns "" or why there is none: no cuBLASLt on this machine, or none of its kernels fits.
std::string FindGpuGemm(CUcontext context, const GemmSpec& spec, unsigned cold, unsigned unaligned,
                        std::size_t workspace, std::shared_ptr<GpuGemm>* gemm);

// "" or why this process has no cuBLASLt. `candidates` are files to try after what is already loaded.
std::string LoadCublasLt(const std::vector<std::string>& candidates);

// False for an element type that it does not know.
bool RunHostGemm(const GemmSpec& spec, void* const* arguments, tsl::thread::ThreadPool* workers);

}  // namespace tf_stitch
