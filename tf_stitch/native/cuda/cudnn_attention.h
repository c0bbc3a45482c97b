// Attentions of a region on a GPU and their gradients, by cuDNN's fused kernels.
#pragma once
#include <memory>
#include <string>

#include "op/executable_format.h"

namespace tf_stitch {

// As LibraryCall::Prepare.
std::string FindAttention(CUcontext context, const AttentionSpec& spec, const CallSite& site,
                          std::shared_ptr<DeviceCall>* call);

}  // namespace tf_stitch
