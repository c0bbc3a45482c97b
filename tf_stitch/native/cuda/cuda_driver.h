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

// cuda.h's CUDA_MEMSET_NODE_PARAMS.
struct MemsetNodeParams {
  CUdeviceptr target;
  std::size_t pitch;
  unsigned value;
  unsigned item_bytes;
  std::size_t width;
  std::size_t height;
};

// cuda.h's CUgraphEdgeData; zeros: a full edge.
struct GraphEdge {
  unsigned char from_port;
  unsigned char to_port;
  unsigned char type;
  unsigned char reserved[5];
};

// Values of cuda.h that we need.
constexpr CUresult kCudaNotReady = 600;
constexpr int kDeviceMultiprocessorCount = 16;
constexpr int kDeviceCacheBytes = 38;  // of the second level
constexpr int kDeviceCooperativeLaunch = 95;
constexpr int kDeviceMajor = 75, kDeviceMinor = 76;  // of its compute capability
constexpr int kFunctionStaticSharedBytes = 1;
constexpr int kFunctionPtxVersion = 5;  // 90: made for compute capability 9.0
constexpr int kFunctionMaxDynamicSharedBytes = 8;
constexpr int kStreamNonBlocking = 1;
constexpr int kFirstOfAllStreams = -100;  // a priority; drivers take the highest that they have
constexpr unsigned kEventWithoutTime = 2;
constexpr int kCaptureRelaxed = 2;
constexpr int kNodeCooperative = 2;  // CU_LAUNCH_ATTRIBUTE_COOPERATIVE
constexpr int kNodeIsKernel = 0;     // CU_GRAPH_NODE_TYPE_KERNEL
constexpr int kNodeIsMemset = 2;     // CU_GRAPH_NODE_TYPE_MEMSET
constexpr GraphEdge kProgrammaticEdge = {1, 0, 1, {}};  // CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, and a type of that name

struct CudaDriver {
  bool loaded = false;
  bool has_edges = false;  // the functions of graph edges that are not full (CUDA 12.3); null where it lacks them
  CUresult (*CtxGetCurrent)(CUcontext*);
  CUresult (*CtxPushCurrent)(CUcontext);
  CUresult (*CtxPopCurrent)(CUcontext*);
  CUresult (*CtxGetDevice)(CUdevice*);
  CUresult (*CtxSynchronize)();
  CUresult (*DevicePrimaryCtxRetain)(CUcontext*, CUdevice);
  CUresult (*StreamGetCtx)(CUstream, CUcontext*);
  CUresult (*StreamSynchronize)(CUstream);
  CUresult (*DeviceGetAttribute)(int*, int, CUdevice);
  CUresult (*ModuleLoadData)(CUmodule*, const void*);
  CUresult (*ModuleUnload)(CUmodule);
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
  CUresult (*MemcpyPeerAsync)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, std::size_t, CUstream);
  CUresult (*MemcpyDtoH)(void*, CUdeviceptr, std::size_t);
  CUresult (*MemcpyDtoHAsync)(void*, CUdeviceptr, std::size_t, CUstream);
  CUresult (*MemcpyHtoDAsync)(CUdeviceptr, const void*, std::size_t, CUstream);
  CUresult (*EventCreate)(CUevent*, unsigned);
  CUresult (*EventRecord)(CUevent, CUstream);
  CUresult (*EventQuery)(CUevent);
  CUresult (*EventSynchronize)(CUevent);
  CUresult (*EventElapsedTime)(float*, CUevent, CUevent);
  CUresult (*EventDestroy)(CUevent);
  CUresult (*StreamWaitEvent)(CUstream, CUevent, unsigned);
  CUresult (*StreamCreate)(CUstream*, unsigned);
  CUresult (*StreamCreateWithPriority)(CUstream*, unsigned, int);
  CUresult (*StreamDestroy)(CUstream);
  CUresult (*StreamBeginCapture)(CUstream, int);
  CUresult (*StreamEndCapture)(CUstream, CUgraph*);
  CUresult (*GraphCreate)(CUgraph*, unsigned);
  CUresult (*GraphDestroy)(CUgraph);
  CUresult (*GraphAddKernelNode)(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, const KernelNodeParams*);
  CUresult (*GraphKernelNodeGetParams)(CUgraphNode, KernelNodeParams*);
  CUresult (*GraphKernelNodeSetAttribute)(CUgraphNode, int, const void*);
  CUresult (*GraphKernelNodeCopyAttributes)(CUgraphNode to, CUgraphNode from);
  CUresult (*GraphAddMemsetNode)(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, const MemsetNodeParams*,
                                 CUcontext);
  CUresult (*GraphMemsetNodeGetParams)(CUgraphNode, MemsetNodeParams*);
  CUresult (*GraphAddChildGraphNode)(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUgraph);
  CUresult (*GraphAddEventRecordNode)(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUevent);
  CUresult (*GraphAddEventWaitNode)(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUevent);
  CUresult (*GraphGetNodes)(CUgraph, CUgraphNode*, std::size_t*);
  CUresult (*GraphNodeGetType)(CUgraphNode, int*);
  CUresult (*GraphAddDependencies)(CUgraph, const CUgraphNode*, const CUgraphNode*, std::size_t);
  CUresult (*GraphAddEdges)(CUgraph, const CUgraphNode*, const CUgraphNode*, const GraphEdge*, std::size_t);
  CUresult (*GraphGetEdges)(CUgraph, CUgraphNode*, CUgraphNode*, GraphEdge*, std::size_t*);
  CUresult (*GraphInstantiate)(CUgraphExec*, CUgraph, unsigned long long);
  CUresult (*GraphExecDestroy)(CUgraphExec);
  CUresult (*GraphExecKernelNodeSetParams)(CUgraphExec, CUgraphNode, const KernelNodeParams*);
  CUresult (*GraphExecMemsetNodeSetParams)(CUgraphExec, CUgraphNode, const MemsetNodeParams*, CUcontext);
  CUresult (*GraphExecChildGraphNodeSetParams)(CUgraphExec, CUgraphNode, CUgraph);
  CUresult (*GraphExecEventWaitNodeSetEvent)(CUgraphExec, CUgraphNode, CUevent);
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
