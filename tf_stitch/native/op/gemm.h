// Matmuls of a region: by cuBLASLt on a GPU, by Eigen on the CPU.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "op/executable_format.h"

namespace tf_stitch {

inline int Arguments(const GemmSpec& spec) { return 3 + spec.bias + spec.addend; }
inline int AddendArgument(const GemmSpec& spec) { return 2 + spec.bias; }

// As LibraryCall::Prepare.
std::string FindGpuGemm(CUcontext context, const GemmSpec& spec, const CallSite& site,
                        std::shared_ptr<DeviceCall>* gemm);

std::string FindGpuFloat8Gemm(CUcontext context, const Float8GemmSpec& spec, const CallSite& site,
                              std::shared_ptr<DeviceCall>* gemm);

// "" or why this process has no cuBLASLt. `candidates` are files to try after what is already loaded.
std::string LoadCublasLt(const std::vector<std::string>& candidates);

// False for an element type that it does not know.
bool RunHostGemm(const GemmSpec& spec, void* const* arguments, tsl::thread::ThreadPool* workers);

}  // namespace tf_stitch
