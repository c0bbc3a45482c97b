// The CUDA driver through dlopen: no CUDA header or library at build or load time, so one .so serves every machine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace tf_stitch {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = std::uint64_t;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;

// cuda.h's CUDA_KERNEL_NODE_PARAMS_v2.
struct KernelNodeParams {
  CUfunction function;
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  CUcontext context;
};

// Values of cuda.h that we need.
constexpr CUresult kCudaNotReady = 600;
constexpr int kDeviceMultiprocessorCount = 16;
constexpr int kDeviceCacheBytes = 38;  // of the second level
constexpr int kDeviceCooperativeLaunch = 95;
constexpr int kFunctionStaticSharedBytes = 1;
constexpr int kFunctionMaxDynamicSharedBytes = 8;
constexpr int kStreamNonBlocking = 1;
constexpr unsigned kEventWithoutTime = 2;
constexpr int kCaptureRelaxed = 2;
constexpr int kNodeCooperative = 2;  // CU_LAUNCH_ATTRIBUTE_COOPERATIVE

struct CudaDriver {
  bool loaded = false;
  CUresult (*CtxGetCurrent)(CUcontext*);
  CUresult (*CtxPushCurrent)(CUcontext);
  CUresult (*CtxPopCurrent)(CUcontext*);
  CUresult (*CtxGetDevice)(CUdevice*);
  CUresult (*StreamGetCtx)(CUstream, CUcontext*);
  CUresult (*StreamSynchronize)(CUstream);
  CUresult (*DeviceGetAttribute)(int*, int, CUdevice);
  CUresult (*ModuleLoadData)(CUmodule*, const void*);
  CUresult (*ModuleGetFunction)(CUfunction*, CUmodule, const char*);
  CUresult (*FuncGetAttribute)(int*, int, CUfunction);
  CUresult (*FuncSetAttribute)(CUfunction, int, int);
  CUresult (*LaunchKernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                           void**, void**);
  CUresult (*LaunchCooperativeKernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                      CUstream, void**);
  CUresult (*OccupancyMaxActiveBlocks)(int*, CUfunction, int, std::size_t);
  CUresult (*MemAlloc)(CUdeviceptr*, std::size_t);
  CUresult (*MemFree)(CUdeviceptr);
  CUresult (*MemsetD8Async)(CUdeviceptr, unsigned char, std::size_t, CUstream);
  CUresult (*MemcpyDtoDAsync)(CUdeviceptr, CUdeviceptr, std::size_t, CUstream);
  CUresult (*MemcpyDtoH)(void*, CUdeviceptr, std::size_t);
  CUresult (*MemcpyDtoHAsync)(void*, CUdeviceptr, std::size_t, CUstream);
  CUresult (*MemcpyHtoDAsync)(CUdeviceptr, const void*, std::size_t, CUstream);
  CUresult (*EventCreate)(CUevent*, unsigned);
  CUresult (*EventRecord)(CUevent, CUstream);
  CUresult (*EventQuery)(CUevent);
  CUresult (*EventSynchronize)(CUevent);
  CUresult (*EventElapsedTime)(float*, CUevent, CUevent);
  CUresult (*EventDestroy)(CUevent);
  CUresult (*StreamCreate)(CUstream*, unsigned);
  CUresult (*StreamDestroy)(CUstream);
  CUresult (*StreamBeginCapture)(CUstream, int);
  CUresult (*StreamEndCapture)(CUstream, CUgraph*);
  CUresult (*GraphCreate)(CUgraph*, unsigned);
  CUresult (*GraphDestroy)(CUgraph);
  CUresult (*GraphAddKernelNode)(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, const KernelNodeParams*);
  CUresult (*GraphKernelNodeSetAttribute)(CUgraphNode, int, const void*);
  CUresult (*GraphAddChildGraphNode)(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUgraph);
  CUresult (*GraphInstantiate)(CUgraphExec*, CUgraph, unsigned long long);
  CUresult (*GraphExecDestroy)(CUgraphExec);
  CUresult (*GraphExecKernelNodeSetParams)(CUgraphExec, CUgraphNode, const KernelNodeParams*);
  CUresult (*GraphExecChildGraphNodeSetParams)(CUgraphExec, CUgraphNode, CUgraph);
  CUresult (*GraphLaunch)(CUgraphExec, CUstream);
  CUresult (*GetErrorString)(CUresult, const char**);
};

// The driver of this process; `loaded` is false on a machine without one.
const CudaDriver& Cuda();

// "" for success, else "<call>: <the driver's words>".
std::string CudaError(const char* call, CUresult code);

inline CUdeviceptr DevicePointer(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

// Makes a context current for a scope, and leaves the thread as it was.
class ScopedContext {
 public:
  explicit ScopedContext(CUcontext wanted) {
    CUcontext current = nullptr;
    Cuda().CtxGetCurrent(&current);
    pushed_ = current != wanted && Cuda().CtxPushCurrent(wanted) == 0;
  }
  ~ScopedContext() {
    if (pushed_) Cuda().CtxPopCurrent(&popped_);
  }
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;

 private:
  bool pushed_ = false;
  CUcontext popped_ = nullptr;
};

}  // namespace tf_stitch
