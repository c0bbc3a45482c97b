#include "cuda/attention_graph.h"

#include <limits>

namespace tf_stitch {
namespace {

using Sizes = std::vector<std::int64_t>;
using Part = const Descriptor*;

constexpr std::int64_t kAlignment = 16;

// Adds tensors and operations. All have four axes: batch, heads, rows, columns.
class Builder {
 public:
  Builder(const DnnLibrary& dnn, const AttentionShape& shape) : dnn_(dnn), shape_(shape) {}

  Sizes Scores() const { return {shape_.batch, shape_.heads, shape_.queries, shape_.keys}; }
  Sizes Rows() const { return {shape_.batch, shape_.heads, shape_.queries, 1}; }

  // Queries, keys, values, what they become, and gradients, as they lie; `turned`: with rows and columns exchanged.
  Part Matrix(AttentionTensor number, bool turned = false) {
    const AttentionStrides& at = shape_.strides[number];
    const bool by_keys = number == kKeys || number == kValues || number == kKeyGrad || number == kValueGrad;
    Sizes sizes{shape_.batch, by_keys ? shape_.key_heads : shape_.heads, by_keys ? shape_.keys : shape_.queries,
                shape_.columns};
    Sizes strides{at[0], at[1], at[2], 1};
    if (turned) {
      std::swap(sizes[2], sizes[3]);
      std::swap(strides[2], strides[3]);
    }
    return Given(number, shape_.type, sizes, strides);
  }

  // A tensor in memory.
  Part Given(AttentionTensor number, int type, const Sizes& sizes, const Sizes& strides, bool by_value = false) {
    made_.tensors.push_back(number);
    return Tensor(number, type, sizes, strides, false, by_value);
  }
  Part Packed(AttentionTensor number, int type, const Sizes& sizes) {
    return Given(number, type, sizes, Strides(sizes));
  }
  Part Value(AttentionTensor number) { return Given(number, kDnnFloat, {1, 1, 1, 1}, {1, 1, 1, 1}, true); }

  // A tensor that only operations of the graph see.
  Part Inner(int type, const Sizes& sizes) { return Inner(type, sizes, Strides(sizes)); }
  Part Inner(int type, const Sizes& sizes, const Sizes& strides) {
    return Tensor(next_++, type, sizes, strides, true, false);
  }

  Part Matmul(Part a, Part b, Part c) {
    Descriptor& matmul = Add(kDnnMatmul);
    matmul.Set(kDnnMatmulComputeType, kDnnIsDataType, static_cast<int>(kDnnFloat)).Finalize();
    Descriptor& operation = Add(kDnnMatmulOp);
    operation.Set(kDnnMatmulA, *a).Set(kDnnMatmulA + 1, *b).Set(kDnnMatmulA + 2, *c).Set(kDnnMatmulA + 3, matmul);
    Operation(operation);
    return c;
  }

  // y = mode(x[, b][, t]); an index has an axis.
  Part Pointwise(int mode, Part y, Part x, Part b = nullptr, Part t = nullptr, int compute = kDnnFloat,
                 std::int64_t axis = -1) {
    Descriptor& pointwise = Add(kDnnPointwise);
    pointwise.Set(kDnnPointwiseMode, kDnnIsPointwiseMode, mode).Set(kDnnPointwiseComputeType, kDnnIsDataType, compute);
    if (axis >= 0) pointwise.Set(kDnnPointwiseAxis, kDnnIsInt64, axis);
    pointwise.Finalize();
    Descriptor& operation = Add(kDnnPointwiseOp);
    operation.Set(kDnnPointwiseDescriptor, pointwise).Set(kDnnPointwiseX, *x).Set(kDnnPointwiseY, *y);
    if (b != nullptr) operation.Set(kDnnPointwiseB, *b);
    if (t != nullptr) operation.Set(kDnnPointwiseT, *t);
    Operation(operation);
    return y;
  }

  Part Reduction(int mode, Part y, Part x) {
    Descriptor& reduction = Add(kDnnReduction);
    reduction.Set(kDnnReductionOperator, kDnnIsReductionOperator, mode)
        .Set(kDnnReductionComputeType, kDnnIsDataType, static_cast<int>(kDnnFloat))
        .Finalize();
    Descriptor& operation = Add(kDnnReductionOp);
    operation.Set(kDnnReductionX, *x).Set(kDnnReductionX + 1, *y).Set(kDnnReductionX + 2, reduction);
    Operation(operation);
    return y;
  }

  Part Reshape(Part y, Part x) {
    Descriptor& operation = Add(kDnnReshapeOp);
    operation.Set(kDnnReshapeX, *x).Set(kDnnReshapeX + 1, *y);
    Operation(operation);
    return y;
  }

  // scale q k^T.
  Part Scores(Part queries, Part keys, Part scale) {
    Part unscaled = Matmul(queries, keys, Inner(kDnnFloat, Scores()));
    return Pointwise(kDnnMul, Inner(kDnnFloat, Scores()), unscaled, scale);
  }

  // Scores where a query sees a key, what is hidden elsewhere.
  Part Masked(Part scores) {
    if (!shape_.causal) return scores;
    constexpr std::int64_t kRow = 2, kColumn = 3;
    Part rows = Pointwise(kDnnIndex, Inner(kDnnInt32, Scores()), scores, nullptr, nullptr, kDnnFloat, kRow);
    Part columns = Pointwise(kDnnIndex, Inner(kDnnInt32, Scores()), scores, nullptr, nullptr, kDnnFloat, kColumn);
    Part seen = Pointwise(kDnnNotLess, Inner(kDnnBoolean, Scores()), rows, columns, nullptr, kDnnBoolean);
    return Pointwise(kDnnSelect, Inner(kDnnFloat, Scores()), scores, Value(kHidden), seen);
  }

  AttentionGraph Finish(DnnHandle handle) {
    made_.graph = std::make_unique<Descriptor>(dnn_, kDnnGraph);
    Descriptor& graph = *made_.graph;
    if (handle != nullptr) graph.Set(kDnnGraphHandle, kDnnIsHandle, handle);
    graph.Set(kDnnGraphOperations, kDnnIsDescriptor, operations_.data(), static_cast<std::int64_t>(operations_.size()));
    graph.Finalize();
    for (const auto& part : made_.parts) {
      if (made_.error.empty()) made_.error = part->error();
    }
    if (made_.error.empty()) made_.error = graph.error();
    return std::move(made_);
  }

 private:
  static Sizes Strides(const Sizes& sizes) {
    Sizes strides(sizes.size(), 1);
    for (std::size_t axis = sizes.size() - 1; axis > 0; --axis) strides[axis - 1] = strides[axis] * sizes[axis];
    return strides;
  }

  Descriptor& Add(int type) {
    made_.parts.push_back(std::make_unique<Descriptor>(dnn_, type));
    return *made_.parts.back();
  }

  void Operation(Descriptor& operation) {
    operation.Finalize();
    operations_.push_back(operation.get());
  }

  Part Tensor(std::int64_t number, int type, const Sizes& sizes, const Sizes& strides, bool inner, bool by_value) {
    Descriptor& tensor = Add(kDnnTensor);
    tensor.Set(kDnnTensorDataType, kDnnIsDataType, type).Set(kDnnTensorDims, sizes).Set(kDnnTensorStrides, strides);
    tensor.Set(kDnnTensorId, kDnnIsInt64, number).Set(kDnnTensorAlignment, kDnnIsInt64, kAlignment);
    tensor.Set(kDnnTensorIsVirtual, kDnnIsBoolean, inner).Set(kDnnTensorIsByValue, kDnnIsBoolean, by_value);
    tensor.Finalize();
    return &tensor;
  }

  const DnnLibrary& dnn_;
  const AttentionShape& shape_;
  AttentionGraph made_;
  std::vector<DnnDescriptor> operations_;
  std::int64_t next_ = kFirstInner;
};

}  // namespace

AttentionGraph BuildAttention(const DnnLibrary& dnn, DnnHandle handle, const AttentionShape& shape) {
  Builder build(dnn, shape);
  const auto inner = [&] { return build.Inner(kDnnFloat, build.Scores()); };
  const auto row = [&] { return build.Inner(kDnnFloat, build.Rows()); };
  Part scores = build.Scores(build.Matrix(kQueries), build.Matrix(kKeys, true), build.Value(kScale));
  scores = build.Masked(scores);
  Part largest = build.Reduction(kDnnMaximum, row(), scores);
  Part weights = build.Pointwise(kDnnExp, inner(), build.Pointwise(kDnnSub, inner(), scores, largest));
  Part sum = build.Reduction(kDnnSum, row(), weights);
  Part logarithm = build.Pointwise(kDnnLog, row(), sum);
  // Where nobody wants them they stay inside, as in the graphs of NVIDIA's frontend.
  Part statistics = shape.statistics ? build.Packed(kStatistics, kDnnFloat, build.Rows()) : row();
  build.Pointwise(kDnnAdd, statistics, largest, logarithm);
  weights = build.Pointwise(kDnnDiv, build.Inner(shape.type, build.Scores()), weights, sum);
  build.Matmul(weights, build.Matrix(kValues), build.Matrix(kAttended));
  return build.Finish(handle);
}

AttentionGraph BuildAttentionGradient(const DnnLibrary& dnn, DnnHandle handle, const AttentionShape& shape) {
  Builder build(dnn, shape);
  const Sizes scores = build.Scores();
  const Sizes turned{scores[0], scores[1], scores[3], scores[2]};
  const Sizes turned_strides{scores[1] * scores[2] * scores[3], scores[2] * scores[3], 1, scores[3]};
  const auto inner = [&] { return build.Inner(kDnnFloat, scores); };
  Part queries = build.Matrix(kQueries), keys = build.Matrix(kKeys, true), values = build.Matrix(kValues, true);
  Part result_grad = build.Matrix(kAttendedGrad), scale = build.Value(kScale);
  // The sum over a row of the softmax's gradient is that of the result times its gradient.
  const Sizes result_sizes{shape.batch, shape.heads, shape.queries, shape.columns};
  Part terms = build.Inner(kDnnFloat, result_sizes, {shape.heads * shape.queries * shape.columns,
                                                     shape.queries * shape.columns, shape.heads * shape.columns, 1});
  build.Pointwise(kDnnMul, terms, result_grad, build.Matrix(kAttended));
  Part sum = build.Reduction(kDnnSum, build.Inner(kDnnFloat, build.Rows()), terms);
  sum = build.Pointwise(kDnnMul, build.Packed(kSum, kDnnFloat, build.Rows()), sum, build.Value(kOne));
  // Probabilities again, and the gradient of values.
  Part probabilities = build.Scores(queries, keys, scale);
  Part statistics = build.Packed(kStatistics, kDnnFloat, build.Rows());
  probabilities = build.Masked(build.Pointwise(kDnnSub, inner(), probabilities, statistics));
  probabilities = build.Pointwise(kDnnExp, inner(), probabilities);
  Part weights = build.Reshape(build.Inner(shape.type, turned, turned_strides), probabilities);
  build.Matmul(weights, result_grad, build.Matrix(kValueGrad));
  // The gradient of scores, and what it makes of queries and keys.
  Part gradient = build.Matmul(result_grad, values, inner());
  gradient = build.Pointwise(kDnnSub, inner(), gradient, sum);
  gradient = build.Pointwise(kDnnMul, inner(), gradient, probabilities);
  gradient = build.Pointwise(kDnnMul, inner(), gradient, scale);
  Part turned_gradient = build.Reshape(build.Inner(shape.type, turned, turned_strides), gradient);
  build.Matmul(turned_gradient, queries, build.Matrix(kKeyGrad));
  const AttentionStrides& at = shape.strides[kKeys];
  Part turned_keys = build.Inner(shape.type, {shape.batch, shape.heads, shape.keys, shape.columns},
                                 {at[0], at[1], at[2], 1});
  build.Reshape(turned_keys, keys);
  if (shape.repeatable) {
    build.Matmul(gradient, turned_keys, build.Matrix(kQueryGrad));
  } else {
    Part sums = build.Matmul(gradient, turned_keys, build.Packed(kQueryGradSums, kDnnFloat, result_sizes));
    build.Pointwise(kDnnIdentity, build.Matrix(kQueryGrad), sums);
  }
  return build.Finish(handle);
}

std::size_t AttentionScratchBytes(const AttentionShape& shape, AttentionTensor tensor) {
  const std::int64_t rows = shape.batch * shape.heads * shape.queries;
  return static_cast<std::size_t>(rows * (tensor == kQueryGradSums ? shape.columns : 1)) * sizeof(float);
}

float HiddenScore(const DnnLibrary& dnn) {
  constexpr std::size_t kTakesInfinity = 91000;
  return dnn.GetVersion() < kTakesInfinity ? std::numeric_limits<float>::lowest()
                                           : -std::numeric_limits<float>::infinity();
}

}  // namespace tf_stitch
