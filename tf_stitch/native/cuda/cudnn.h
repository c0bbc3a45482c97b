// Convolutions of a region on a GPU, by cuDNN.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "op/executable_format.h"

namespace tf_stitch {

// As LibraryCall::Prepare.
std::string FindConvolution(CUcontext context, const ConvolutionSpec& spec, const CallSite& site,
                            std::shared_ptr<DeviceCall>* call);

// "" or why this process has no cuDNN. `candidates` are files to try after what is already loaded.
std::string LoadCudnn(const std::vector<std::string>& candidates);

}  // namespace tf_stitch
