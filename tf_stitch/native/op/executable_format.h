// The words of an executable: codes, and records with what reads them. See tf_stitch/placement/executable_format.py.
// Made by `python -m tf_stitch.native.executable_header`; edits are lost.
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "cpu/stitch_abi.h"
#include "op/library_call.h"

namespace tf_stitch {

constexpr std::int64_t kAbi = 6;

// Where a buffer lives. An operand is a buffer's number in its space, or a byte offset into the arena, counted
// through its segments: no buffer lies in two. Counters of grid barriers are memory that the executable keeps from
// run to run, zero at first; a GPU launch may use as many as it has blocks, from the one it is given on.
enum class Space : std::int64_t {
  kInput = 0,
  kOutput = 1,
  kVariable = 2,
  kFresh = 3,
  kArena = 4,
  kBarrier = 5,
};

// Where an operand of a step lives.
struct Operand {
  Space space;
  std::int64_t index;  // input, output, variable, state entry or counter; for kArena the offset in bytes
  int segment = 0;     // of the arena; `index` counts from its beginning
};

// How a variable gets its new value: written over, or a fresh buffer takes its place.
enum class StateMode : std::int64_t {
  kInPlace = 0,
  kFresh = 1,
};

// What a step does.
enum class StepCode : std::int64_t {
  kHostLaunch = 0,
  kDeviceLaunch = 1,
  kCopy = 2,
  kLibraryCall = 3,
};

// Functions that libraries apply to a matmul, or a convolution.
enum class Activation : std::int64_t {
  kNone = 0,
  kRelu = 1,
  kGelu = 2,
};

// A convolution, or which gradient of it.
enum class ConvolutionPass : std::int64_t {
  kForward = 0,
  kInputGradient = 1,
  kFilterGradient = 2,
};

// An attention, or its gradients.
enum class AttentionPass : std::int64_t {
  kForward = 0,
  kGradient = 1,
};

// Calls a CPU kernel.
struct HostLaunchWords {
  tfs_cpu_kernel kernel;
  std::vector<Operand> args;
  std::vector<std::int64_t> sizes;  // a pointer to them follows the operands, if there are any

  template <typename Reader>
  static HostLaunchWords Read(Reader& reader) {
    HostLaunchWords words{};
    words.kernel = reader.template NextPointer<tfs_cpu_kernel>("HostLaunchWords.kernel");
    words.args = reader.Operands();
    words.sizes = reader.Numbers("HostLaunchWords.sizes");
    return words;
  }
};

// Launches a GPU kernel.
struct DeviceLaunchWords {
  int module;  // of the executable's modules
  const char* symbol;  // stays valid for the process's life
  unsigned grid;  // blocks
  unsigned block;  // threads
  unsigned dynamic_shared_bytes;
  bool cooperative;  // its blocks wait for each other at a grid barrier
  std::vector<Operand> args;
  std::vector<std::int64_t> sizes;  // parameters after the operands

  template <typename Reader>
  static DeviceLaunchWords Read(Reader& reader) {
    DeviceLaunchWords words{};
    words.module = static_cast<int>(reader.Ranged("DeviceLaunchWords.module", 0, 2147483647));
    words.symbol = reader.template NextPointer<const char*>("DeviceLaunchWords.symbol");
    words.grid = static_cast<unsigned>(reader.Ranged("DeviceLaunchWords.grid", 1, 2147483647));
    words.block = static_cast<unsigned>(reader.Ranged("DeviceLaunchWords.block", 1, 1024));
    words.dynamic_shared_bytes = static_cast<unsigned>(reader.Ranged("DeviceLaunchWords.dynamic_shared_bytes", 0, 1048576));
    words.cooperative = reader.Ranged("DeviceLaunchWords.cooperative", 0, 1) == 1;
    words.args = reader.Operands();
    words.sizes = reader.Numbers("DeviceLaunchWords.sizes");
    return words;
  }
};

// Copies bytes.
struct Copy {
  Operand target;
  Operand source;
  std::int64_t bytes;

  template <typename Reader>
  static Copy Read(Reader& reader) {
    Copy words{};
    words.target = reader.NextOperand();
    words.source = reader.NextOperand();
    words.bytes = reader.Ranged("Copy.bytes", 0, 281474976710656);
    return words;
  }
};

// How matrices [rows, cols] lie in memory: contiguous along the columns, or along the rows if `transposed`. Matrix i
// begins at offset + i / group * step + i % group * group_step.
struct MatrixLayout {
  bool transposed;
  std::int64_t stride;  // elements from one stored row to the next
  std::int64_t step;  // elements from one group of matrices to the next
  std::int64_t group;  // matrices of a group
  std::int64_t group_step;  // elements from one matrix of a group to the next
  std::int64_t offset;  // elements before the first matrix

  auto Tie() const { return std::tie(transposed, stride, step, group, group_step, offset); }
  bool operator<(const MatrixLayout& other) const { return Tie() < other.Tie(); }

  template <typename Reader>
  static MatrixLayout Read(Reader& reader) {
    MatrixLayout words{};
    words.transposed = reader.Ranged("MatrixLayout.transposed", 0, 1) == 1;
    words.stride = reader.Ranged("MatrixLayout.stride", 1, 281474976710656);
    words.step = reader.Ranged("MatrixLayout.step", 0, 281474976710656);
    words.group = reader.Ranged("MatrixLayout.group", 1, 2147483647);
    words.group_step = reader.Ranged("MatrixLayout.group_step", 0, 281474976710656);
    words.offset = reader.Ranged("MatrixLayout.offset", 0, 281474976710656);
    return words;
  }
};

// activation(a b + bias + addend): `batch` matmuls [m, k] x [k, n] -> [m, n], the bias a vector of n that is added to
// every row, the addend [batch, m, n], contiguous. Arguments are a, b, the bias, the addend, those two if there are
// any, and the result.
struct GemmSpec {
  int type;  // tensorflow::DataType
  std::int64_t batch;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  MatrixLayout a;
  MatrixLayout b;
  MatrixLayout out;  // not transposed
  bool bias;
  bool addend;
  Activation activation;

  auto Tie() const { return std::tie(type, batch, m, n, k, a, b, out, bias, addend, activation); }
  bool operator<(const GemmSpec& other) const { return Tie() < other.Tie(); }

  template <typename Reader>
  static GemmSpec Read(Reader& reader) {
    GemmSpec words{};
    words.type = static_cast<int>(reader.Ranged("GemmSpec.type", 1, 1000));
    words.batch = reader.Ranged("GemmSpec.batch", 1, 2147483647);
    words.m = reader.Ranged("GemmSpec.m", 1, 2147483647);
    words.n = reader.Ranged("GemmSpec.n", 1, 2147483647);
    words.k = reader.Ranged("GemmSpec.k", 1, 2147483647);
    words.a = MatrixLayout::Read(reader);
    words.b = MatrixLayout::Read(reader);
    words.out = MatrixLayout::Read(reader);
    words.bias = reader.Ranged("GemmSpec.bias", 0, 1) == 1;
    words.addend = reader.Ranged("GemmSpec.addend", 0, 1) == 1;
    words.activation = static_cast<Activation>(reader.Ranged("GemmSpec.activation", 0, 2));
    return words;
  }
};

// A convolution of images [n, *image, c] by filters [k, *window, c / groups] to results [n, *windows, k], or a
// gradient of it. All are contiguous. Arguments are images, filters, results; gradient of results, filters, gradient
// of images; or images, gradient of results, gradient of filters. A convolution's result is activation(convolution +
// addend + bias), the bias a vector of k; these two are arguments before the result, the bias first. Nothing is
// rounded in between.
struct ConvolutionSpec {
  ConvolutionPass pass;
  int type;  // tensorflow::DataType
  std::int64_t n;
  std::int64_t c;
  std::int64_t k;
  std::int64_t groups;
  std::vector<std::int64_t> image;
  std::vector<std::int64_t> window;
  std::vector<std::int64_t> windows;
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> dilations;
  std::vector<std::int64_t> padding;
  bool bias;
  bool addend;
  Activation activation;

  auto Tie() const { return std::tie(pass, type, n, c, k, groups, image, window, windows, strides, dilations, padding, bias, addend, activation); }
  bool operator<(const ConvolutionSpec& other) const { return Tie() < other.Tie(); }

  template <typename Reader>
  static ConvolutionSpec Read(Reader& reader) {
    ConvolutionSpec words{};
    words.pass = static_cast<ConvolutionPass>(reader.Ranged("ConvolutionSpec.pass", 0, 2));
    words.type = static_cast<int>(reader.Ranged("ConvolutionSpec.type", 1, 1000));
    words.n = reader.Ranged("ConvolutionSpec.n", 1, 2147483647);
    words.c = reader.Ranged("ConvolutionSpec.c", 1, 2147483647);
    words.k = reader.Ranged("ConvolutionSpec.k", 1, 2147483647);
    words.groups = reader.Ranged("ConvolutionSpec.groups", 1, 2147483647);
    words.image = reader.Numbers("ConvolutionSpec.image", 1, 2147483647);
    words.window = reader.Numbers("ConvolutionSpec.window", 1, 2147483647);
    words.windows = reader.Numbers("ConvolutionSpec.windows", 1, 2147483647);
    words.strides = reader.Numbers("ConvolutionSpec.strides", 1, 2147483647);
    words.dilations = reader.Numbers("ConvolutionSpec.dilations", 1, 2147483647);
    words.padding = reader.Numbers("ConvolutionSpec.padding", 0, 2147483647);
    words.bias = reader.Ranged("ConvolutionSpec.bias", 0, 1) == 1;
    words.addend = reader.Ranged("ConvolutionSpec.addend", 0, 1) == 1;
    words.activation = static_cast<Activation>(reader.Ranged("ConvolutionSpec.activation", 0, 2));
    return words;
  }
};

// softmax(scale q k^T) v of queries [batch, heads, queries, columns], keys and values [batch, heads / shared, keys,
// columns]; or the gradients of these three. Arguments are queries, keys, values, and for gradients the result, its
// gradient and the log sums; then those of the results that are wanted: the result and log sums (float32 [batch,
// heads, queries]: of each query the logarithm of the sum of its scores' exponentials), or gradients of queries,
// keys, values. All matrices have a layout, also results that are not wanted: elements before the first, and from one
// batch, head and row to the next.
struct AttentionSpec {
  AttentionPass pass;
  int type;  // tensorflow::DataType
  std::int64_t batch;
  std::int64_t heads;
  std::int64_t shared;  // neighbouring heads that share keys and values; of gradients 1
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t columns;
  std::int64_t scale;  // the bits of a float
  bool causal;  // query i sees keys 0 to i
  unsigned results;  // that are wanted, as bits
  std::vector<std::int64_t> layouts;

  auto Tie() const { return std::tie(pass, type, batch, heads, shared, queries, keys, columns, scale, causal, results, layouts); }
  bool operator<(const AttentionSpec& other) const { return Tie() < other.Tie(); }

  template <typename Reader>
  static AttentionSpec Read(Reader& reader) {
    AttentionSpec words{};
    words.pass = static_cast<AttentionPass>(reader.Ranged("AttentionSpec.pass", 0, 1));
    words.type = static_cast<int>(reader.Ranged("AttentionSpec.type", 1, 1000));
    words.batch = reader.Ranged("AttentionSpec.batch", 1, 2147483647);
    words.heads = reader.Ranged("AttentionSpec.heads", 1, 2147483647);
    words.shared = reader.Ranged("AttentionSpec.shared", 1, 2147483647);
    words.queries = reader.Ranged("AttentionSpec.queries", 1, 2147483647);
    words.keys = reader.Ranged("AttentionSpec.keys", 1, 2147483647);
    words.columns = reader.Ranged("AttentionSpec.columns", 1, 2147483647);
    words.scale = reader.Ranged("AttentionSpec.scale", 0, 4294967295);
    words.causal = reader.Ranged("AttentionSpec.causal", 0, 1) == 1;
    words.results = static_cast<unsigned>(reader.Ranged("AttentionSpec.results", 1, 7));
    words.layouts = reader.Numbers("AttentionSpec.layouts", 0, 281474976710656);
    return words;
  }
};

// A matmul of float8, [m, k] by [n, k] -> [m, n], each times a scale, a float32. All are contiguous. Arguments are a,
// b, the scale of a, the scale of b, and the result.
struct Float8GemmSpec {
  int type;  // tensorflow::DataType
  int a_type;  // tensorflow::DataType
  int b_type;  // tensorflow::DataType
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;

  auto Tie() const { return std::tie(type, a_type, b_type, m, n, k); }
  bool operator<(const Float8GemmSpec& other) const { return Tie() < other.Tie(); }

  template <typename Reader>
  static Float8GemmSpec Read(Reader& reader) {
    Float8GemmSpec words{};
    words.type = static_cast<int>(reader.Ranged("Float8GemmSpec.type", 1, 1000));
    words.a_type = static_cast<int>(reader.Ranged("Float8GemmSpec.a_type", 1, 1000));
    words.b_type = static_cast<int>(reader.Ranged("Float8GemmSpec.b_type", 1, 1000));
    words.m = reader.Ranged("Float8GemmSpec.m", 1, 2147483647);
    words.n = reader.Ranged("Float8GemmSpec.n", 1, 2147483647);
    words.k = reader.Ranged("Float8GemmSpec.k", 1, 2147483647);
    return words;
  }
};

// Which library a call is of.
enum class LibraryCode : std::int64_t {
  kGemm = 0,
  kConvolution = 1,
  kFusedAttention = 2,
  kFloat8Gemm = 3,
};

// The call of a record; throws std::invalid_argument where that makes no sense.
std::shared_ptr<const LibraryCall> MakeCall(const GemmSpec& spec);
std::shared_ptr<const LibraryCall> MakeCall(const ConvolutionSpec& spec);
std::shared_ptr<const LibraryCall> MakeCall(const AttentionSpec& spec);
std::shared_ptr<const LibraryCall> MakeCall(const Float8GemmSpec& spec);

template <typename Reader>
std::shared_ptr<const LibraryCall> ReadCall(Reader& reader) {
  switch (static_cast<LibraryCode>(reader.Ranged("library", 0, 3))) {
    case LibraryCode::kGemm:
      return MakeCall(GemmSpec::Read(reader));
    case LibraryCode::kConvolution:
      return MakeCall(ConvolutionSpec::Read(reader));
    case LibraryCode::kFusedAttention:
      return MakeCall(AttentionSpec::Read(reader));
    case LibraryCode::kFloat8Gemm:
      return MakeCall(Float8GemmSpec::Read(reader));
  }
  return nullptr;
}

}  // namespace tf_stitch
