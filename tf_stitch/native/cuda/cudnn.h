// Convolutions of a region on a GPU, by cuDNN.
#pragma once
#include <memory>
#include <string>

#include "op/executable_format.h"

namespace tf_stitch {

// As LibraryCall::Prepare.
std::string FindConvolution(CUcontext context, const ConvolutionSpec& spec, const CallSite& site,
                            std::shared_ptr<DeviceCall>* call);

}  // namespace tf_stitch
