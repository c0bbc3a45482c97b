// Operation graphs of cuDNN for convolutions, for their gradients, and for what follows a convolution in one call.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda/cudnn_descriptor.h"
#include "op/executable_format.h"

namespace tf_stitch {

// A graph, and the descriptors that it is made of.
struct ConvolutionGraph {
  std::vector<std::unique_ptr<Descriptor>> parts;
  std::unique_ptr<Descriptor> graph;
  std::string error;
};

// cudnnDataType_t of a tensorflow::DataType, -1 if there are no convolutions of it.
int DnnDataType(int type);

// The number of each argument's tensor in a graph.
std::vector<std::int64_t> ConvolutionTensors(const ConvolutionSpec& spec);

std::size_t ConvolutionBytes(const ConvolutionSpec& spec, std::size_t argument);

// `unaligned`: see CallSite.
ConvolutionGraph BuildConvolution(const DnnLibrary& dnn, DnnHandle handle, const ConvolutionSpec& spec,
                                  unsigned unaligned);

}  // namespace tf_stitch
