// Operation graphs of cuDNN for attention and its gradients: the patterns that its fused kernels are found by.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/cudnn_descriptor.h"

namespace tf_stitch {

// Tensors of an attention, in order of their numbers in a graph. `kStatistics` is the logarithm of the sum of a query's
// exponentials, float32 [batch, heads, queries]; `kSum` and `kQueryGradSums` are float32 scratch memory of gradients.
enum AttentionTensor {
  kQueries = 1, kKeys, kValues, kAttended, kStatistics, kScale, kHidden, kOne,
  kAttendedGrad, kQueryGrad, kKeyGrad, kValueGrad, kQueryGradSums, kSum, kFirstInner
};

// Elements from one batch, head and row to the next; those of a row lie together.
using AttentionStrides = std::array<std::int64_t, 3>;

// softmax(scale q k^T, masked) v, and its gradients.
struct AttentionShape {
  int type;  // cudnnDataType_t, of all but the statistics
  std::int64_t batch, heads, queries, keys, columns;
  std::int64_t key_heads;  // of keys and values: as many neighbouring heads of queries share each
  float scale;
  bool causal;  // query i sees keys 0 to i
  bool statistics;  // are wanted of the forward pass
  bool repeatable;  // gradients are the same bits in each run: scores' gradients then lie in scratch memory
  std::array<AttentionStrides, kFirstInner> strides;  // of queries, keys, values, the result and gradients of these
};

// A graph, and the descriptors that it is made of.
struct AttentionGraph {
  std::vector<std::unique_ptr<Descriptor>> parts;
  std::unique_ptr<Descriptor> graph;
  std::string error;
  std::vector<AttentionTensor> tensors;  // that lie in memory and are given to a run, scratch memory and numbers last
};

// Of the result, and of the statistics if they are wanted. `handle` may be null where cuDNN is asked about a device by its properties.
AttentionGraph BuildAttention(const DnnLibrary& dnn, DnnHandle handle, const AttentionShape& shape);
// Of the gradients of queries, keys and values.
AttentionGraph BuildAttentionGradient(const DnnLibrary& dnn, DnnHandle handle, const AttentionShape& shape);

// Bytes of a tensor that is scratch memory.
std::size_t AttentionScratchBytes(const AttentionShape& shape, AttentionTensor tensor);
// What scores are that a causal mask hides.
float HiddenScore(const DnnLibrary& dnn);

}  // namespace tf_stitch
