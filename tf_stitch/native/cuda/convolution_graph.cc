#include "cuda/convolution_graph.h"

#include <utility>

#include "op/element_types.h"
#include "op/library_call.h"

namespace tf_stitch {
namespace {

using Sizes = std::vector<std::int64_t>;

// Of a tensor in the convolution, a gradient's too: its number.
enum Role { kImage, kFilter, kResult, kBias, kAddend, kFirstInner };

// The role of each argument.
constexpr Role kRoles[3][3] = {
    {kImage, kFilter, kResult}, {kResult, kFilter, kImage}, {kImage, kResult, kFilter}};
constexpr int kOperations[] = {kDnnForward, kDnnInputGrad, kDnnFilterGrad};
constexpr int kAlphas[] = {kDnnForwardAlpha, kDnnInputGradAlpha, kDnnFilterGradAlpha};
// What follows alpha among an operation's attributes.
enum { kBeta = 1, kTheConvolution = 2, kTheFilter = 3, kTheImage = 4, kTheResult = 5 };

// Sizes of a tensor as cuDNN names them, wherever they lie: batch or filters, channels, then what is between.
Sizes Dims(const ConvolutionSpec& spec, Role role) {
  const Sizes& along = role == kImage ? spec.image : role == kFilter ? spec.window : spec.windows;
  Sizes dims = role == kFilter ? Sizes{spec.k, spec.c / spec.groups}
                               : Sizes{spec.n, role == kImage ? spec.c : spec.k};
  dims.insert(dims.end(), along.begin(), along.end());
  if (role == kBias) {
    dims.assign(dims.size(), 1);
    dims[1] = spec.k;
  }
  return dims;
}

std::vector<Role> Arguments(const ConvolutionSpec& spec) {
  const Role* const roles = kRoles[static_cast<int>(spec.pass)];
  std::vector<Role> found{roles[0], roles[1]};
  if (spec.bias) found.push_back(kBias);
  if (spec.addend) found.push_back(kAddend);
  found.push_back(roles[2]);
  return found;
}

class Builder {
 public:
  Builder(const DnnLibrary& dnn, DnnHandle handle, const ConvolutionSpec& spec, unsigned unaligned)
      : dnn_(dnn), handle_(handle), spec_(spec), unaligned_(unaligned),
        type_(DnnDataType(spec.type)), compute_(spec.type == kDouble ? kDnnDouble : kDnnFloat) {}

  // Only in this order has cuDNN kernels that it need not compile first: the addend, the bias, the activation.
  ConvolutionGraph Build() {
    const std::vector<Role> arguments = Arguments(spec_);
    std::vector<const Descriptor*> tensors(kFirstInner);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const bool aligned = (unaligned_ >> i & 1) == 0;
      const std::int64_t alignment = aligned ? kCallAlignment : ElementBytes(spec_.type);
      tensors[arguments[i]] = &Tensor(arguments[i], type_, Dims(spec_, arguments[i]), alignment, false);
    }
    const bool activated = spec_.activation != Activation::kNone;
    int left = spec_.addend + spec_.bias + activated;
    const Descriptor* value = left == 0 ? tensors[kResult] : &Inner();
    Convolve(*tensors[kImage], *tensors[kFilter], *value);
    const auto then = [&](int mode, const Descriptor* operand) {
      const Descriptor* to = --left == 0 ? tensors[kResult] : &Inner();
      Pointwise(mode, *value, operand, *to);
      value = to;
    };
    if (spec_.addend) then(kDnnAdd, tensors[kAddend]);
    if (spec_.bias) then(kDnnAdd, tensors[kBias]);
    if (activated) then(kDnnRelu, nullptr);
    auto graph = std::make_unique<Descriptor>(dnn_, kDnnGraph);
    graph->Set(kDnnGraphHandle, kDnnIsHandle, handle_);
    graph->Set(kDnnGraphOperations, kDnnIsDescriptor, operations_.data(),
               static_cast<std::int64_t>(operations_.size()));
    graph->Finalize();
    if (error_.empty()) error_ = graph->error();
    return {std::move(parts_), std::move(graph), std::move(error_)};
  }

 private:
  Descriptor& Keep(Descriptor made) {
    if (error_.empty()) error_ = made.error();
    parts_.push_back(std::make_unique<Descriptor>(std::move(made)));
    return *parts_.back();
  }

  // Channels lie last.
  Descriptor& Tensor(std::int64_t number, int type, const Sizes& dims, std::int64_t aligned, bool inner) {
    Sizes strides(dims.size(), 1);
    std::int64_t stride = dims[1];
    for (std::size_t axis = dims.size() - 1; axis > 1; --axis) {
      strides[axis] = stride;
      stride *= dims[axis];
    }
    strides[0] = stride;
    Descriptor tensor(dnn_, kDnnTensor);
    tensor.Set(kDnnTensorDataType, kDnnIsDataType, type).Set(kDnnTensorDims, dims);
    tensor.Set(kDnnTensorStrides, strides).Set(kDnnTensorId, kDnnIsInt64, number);
    tensor.Set(kDnnTensorAlignment, kDnnIsInt64, aligned);
    if (inner) tensor.Set(kDnnTensorIsVirtual, kDnnIsBoolean, inner);
    tensor.Finalize();
    return Keep(std::move(tensor));
  }

  // A result on the way, which is not rounded to the type of the last one.
  const Descriptor& Inner() { return Tensor(inner_++, compute_, Dims(spec_, kResult), kCallAlignment, true); }

  void Convolve(const Descriptor& image, const Descriptor& filter, const Descriptor& result) {
    Descriptor convolution(dnn_, kDnnConvolution);
    const auto axes = static_cast<std::int64_t>(spec_.image.size());
    const int mode = kDnnCrossCorrelation;
    convolution.Set(kDnnConvolutionSpatialDims, kDnnIsInt64, axes)
        .Set(kDnnConvolutionComputeType, kDnnIsDataType, compute_)
        .Set(kDnnConvolutionMode, kDnnIsConvolutionMode, mode)
        .Set(kDnnConvolutionPrePaddings, spec_.padding)
        .Set(kDnnConvolutionPostPaddings, spec_.padding)
        .Set(kDnnConvolutionStrides, spec_.strides)
        .Set(kDnnConvolutionDilations, spec_.dilations)
        .Finalize();
    const int pass = static_cast<int>(spec_.pass), alpha = kAlphas[pass];
    Descriptor operation(dnn_, kOperations[pass]);
    if (compute_ == kDnnDouble) {
      const double one = 1, zero = 0;
      operation.Set(alpha, kDnnIsDouble, one).Set(alpha + kBeta, kDnnIsDouble, zero);
    } else {
      const float one = 1, zero = 0;
      operation.Set(alpha, kDnnIsFloat, one).Set(alpha + kBeta, kDnnIsFloat, zero);
    }
    operation.Set(alpha + kTheConvolution, Keep(std::move(convolution))).Set(alpha + kTheFilter, filter);
    operation.Set(alpha + kTheImage, image).Set(alpha + kTheResult, result).Finalize();
    operations_.push_back(Keep(std::move(operation)).get());
  }

  void Pointwise(int mode, const Descriptor& value, const Descriptor* operand, const Descriptor& to) {
    Descriptor pointwise(dnn_, kDnnPointwise);
    pointwise.Set(kDnnPointwiseMode, kDnnIsPointwiseMode, mode);
    pointwise.Set(kDnnPointwiseComputeType, kDnnIsDataType, compute_).Finalize();
    Descriptor operation(dnn_, kDnnPointwiseOp);
    operation.Set(kDnnPointwiseDescriptor, Keep(std::move(pointwise))).Set(kDnnPointwiseX, value);
    if (operand != nullptr) operation.Set(kDnnPointwiseB, *operand);
    operation.Set(kDnnPointwiseY, to).Finalize();
    operations_.push_back(Keep(std::move(operation)).get());
  }

  const DnnLibrary& dnn_;
  const DnnHandle handle_;
  const ConvolutionSpec& spec_;
  const unsigned unaligned_;
  const int type_, compute_;
  std::int64_t inner_ = kFirstInner;
  std::vector<std::unique_ptr<Descriptor>> parts_;
  std::vector<DnnDescriptor> operations_;
  std::string error_;
};

}  // namespace

int DnnDataType(int type) {
  switch (type) {
    case kFloat:
      return kDnnFloat;
    case kDouble:
      return kDnnDouble;
    case kHalf:
      return kDnnHalf;
    case kBfloat16:
      return kDnnBfloat16;
    default:
      return -1;
  }
}

std::vector<std::int64_t> ConvolutionTensors(const ConvolutionSpec& spec) {
  const std::vector<Role> arguments = Arguments(spec);
  return {arguments.begin(), arguments.end()};
}

std::size_t ConvolutionBytes(const ConvolutionSpec& spec, std::size_t argument) {
  std::size_t bytes = ElementBytes(spec.type);
  for (const std::int64_t size : Dims(spec, Arguments(spec)[argument])) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

ConvolutionGraph BuildConvolution(const DnnLibrary& dnn, DnnHandle handle, const ConvolutionSpec& spec,
                                  unsigned unaligned) {
  return Builder(dnn, handle, spec, unaligned).Build();
}

}  // namespace tf_stitch
