#include "cuda/cuda_driver.h"

#include <dlfcn.h>

namespace tf_stitch {
namespace {

template <typename Function>
bool Resolve(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

CudaDriver Load() {
  CudaDriver driver{};
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return driver;
  driver.loaded = Resolve(library, "cuCtxGetCurrent", &driver.CtxGetCurrent) &&
                  Resolve(library, "cuCtxPushCurrent_v2", &driver.CtxPushCurrent) &&
                  Resolve(library, "cuCtxPopCurrent_v2", &driver.CtxPopCurrent) &&
                  Resolve(library, "cuCtxGetDevice", &driver.CtxGetDevice) &&
                  Resolve(library, "cuCtxSynchronize", &driver.CtxSynchronize) &&
                  Resolve(library, "cuDevicePrimaryCtxRetain", &driver.DevicePrimaryCtxRetain) &&
                  Resolve(library, "cuStreamGetCtx", &driver.StreamGetCtx) &&
                  Resolve(library, "cuStreamSynchronize", &driver.StreamSynchronize) &&
                  Resolve(library, "cuDeviceGetAttribute", &driver.DeviceGetAttribute) &&
                  Resolve(library, "cuModuleLoadData", &driver.ModuleLoadData) &&
                  Resolve(library, "cuModuleUnload", &driver.ModuleUnload) &&
                  Resolve(library, "cuModuleGetFunction", &driver.ModuleGetFunction) &&
                  Resolve(library, "cuFuncGetAttribute", &driver.FuncGetAttribute) &&
                  Resolve(library, "cuFuncSetAttribute", &driver.FuncSetAttribute) &&
                  Resolve(library, "cuLaunchKernel", &driver.LaunchKernel) &&
                  Resolve(library, "cuLaunchCooperativeKernel", &driver.LaunchCooperativeKernel) &&
                  Resolve(library, "cuOccupancyMaxActiveBlocksPerMultiprocessor", &driver.OccupancyMaxActiveBlocks) &&
                  Resolve(library, "cuMemAlloc_v2", &driver.MemAlloc) &&
                  Resolve(library, "cuMemFree_v2", &driver.MemFree) &&
                  Resolve(library, "cuMemsetD8Async", &driver.MemsetD8Async) &&
                  Resolve(library, "cuMemcpyDtoDAsync_v2", &driver.MemcpyDtoDAsync) &&
                  Resolve(library, "cuMemcpyPeerAsync", &driver.MemcpyPeerAsync) &&
                  Resolve(library, "cuMemcpyDtoH_v2", &driver.MemcpyDtoH) &&
                  Resolve(library, "cuMemcpyDtoHAsync_v2", &driver.MemcpyDtoHAsync) &&
                  Resolve(library, "cuMemcpyHtoDAsync_v2", &driver.MemcpyHtoDAsync) &&
                  Resolve(library, "cuEventCreate", &driver.EventCreate) &&
                  Resolve(library, "cuEventRecord", &driver.EventRecord) &&
                  Resolve(library, "cuEventQuery", &driver.EventQuery) &&
                  Resolve(library, "cuEventSynchronize", &driver.EventSynchronize) &&
                  Resolve(library, "cuEventElapsedTime", &driver.EventElapsedTime) &&
                  Resolve(library, "cuEventDestroy_v2", &driver.EventDestroy) &&
                  Resolve(library, "cuStreamWaitEvent", &driver.StreamWaitEvent) &&
                  Resolve(library, "cuStreamCreate", &driver.StreamCreate) &&
                  Resolve(library, "cuStreamCreateWithPriority", &driver.StreamCreateWithPriority) &&
                  Resolve(library, "cuStreamDestroy_v2", &driver.StreamDestroy) &&
                  Resolve(library, "cuStreamBeginCapture_v2", &driver.StreamBeginCapture) &&
                  Resolve(library, "cuStreamEndCapture", &driver.StreamEndCapture) &&
                  Resolve(library, "cuGraphCreate", &driver.GraphCreate) &&
                  Resolve(library, "cuGraphDestroy", &driver.GraphDestroy) &&
                  Resolve(library, "cuGraphAddKernelNode_v2", &driver.GraphAddKernelNode) &&
                  Resolve(library, "cuGraphKernelNodeGetParams_v2", &driver.GraphKernelNodeGetParams) &&
                  Resolve(library, "cuGraphKernelNodeSetAttribute", &driver.GraphKernelNodeSetAttribute) &&
                  Resolve(library, "cuGraphKernelNodeCopyAttributes", &driver.GraphKernelNodeCopyAttributes) &&
                  Resolve(library, "cuGraphAddMemsetNode", &driver.GraphAddMemsetNode) &&
                  Resolve(library, "cuGraphMemsetNodeGetParams", &driver.GraphMemsetNodeGetParams) &&
                  Resolve(library, "cuGraphAddChildGraphNode", &driver.GraphAddChildGraphNode) &&
                  Resolve(library, "cuGraphAddEventRecordNode", &driver.GraphAddEventRecordNode) &&
                  Resolve(library, "cuGraphAddEventWaitNode", &driver.GraphAddEventWaitNode) &&
                  Resolve(library, "cuGraphExecEventWaitNodeSetEvent", &driver.GraphExecEventWaitNodeSetEvent) &&
                  Resolve(library, "cuGraphGetNodes", &driver.GraphGetNodes) &&
                  Resolve(library, "cuGraphNodeGetType", &driver.GraphNodeGetType) &&
                  Resolve(library, "cuGraphAddDependencies", &driver.GraphAddDependencies) &&
                  Resolve(library, "cuGraphInstantiateWithFlags", &driver.GraphInstantiate) &&
                  Resolve(library, "cuGraphExecDestroy", &driver.GraphExecDestroy) &&
                  Resolve(library, "cuGraphExecKernelNodeSetParams_v2", &driver.GraphExecKernelNodeSetParams) &&
                  Resolve(library, "cuGraphExecMemsetNodeSetParams", &driver.GraphExecMemsetNodeSetParams) &&
                  Resolve(library, "cuGraphExecChildGraphNodeSetParams", &driver.GraphExecChildGraphNodeSetParams) &&
                  Resolve(library, "cuGraphLaunch", &driver.GraphLaunch) &&
                  Resolve(library, "cuGetErrorString", &driver.GetErrorString);
  driver.has_edges = Resolve(library, "cuGraphAddDependencies_v2", &driver.GraphAddEdges) &&
                     Resolve(library, "cuGraphGetEdges_v2", &driver.GraphGetEdges);
  return driver;
}

}  // namespace

const CudaDriver& Cuda() {
  static const CudaDriver driver = Load();
  return driver;
}

std::string CudaError(const char* call, CUresult code) {
  if (code == 0) return "";
  const char* words = nullptr;
  Cuda().GetErrorString(code, &words);
  return std::string(call) + ": " + (words != nullptr ? words : "unknown error") + " (" + std::to_string(code) + ")";
}

}  // namespace tf_stitch
