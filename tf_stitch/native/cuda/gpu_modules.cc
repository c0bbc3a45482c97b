// Modules are kept per (CUcontext, image): those of a converted model as long as an executable has them, all others for
// the process's life, because contexts die before static destructors run.
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/cuda_graph.h"
#include "op/executable.h"
#include "cuda/gpu_timer.h"

namespace tf_stitch {
namespace {

constexpr unsigned kDefaultSharedBytes = 48 * 1024;

}  // namespace

// A module of a context.
class GpuModule {
 public:
  GpuModule(CUcontext context, const ModuleImage& image, std::shared_ptr<const void> code)
      : context_(context), image_(image), code_(std::move(code)) {}

  ~GpuModule() {
    if (module_ == nullptr) return;
    const ScopedContext wanted(context_);
    CUcontext current = nullptr;
    Cuda().CtxGetCurrent(&current);
    if (current != context_) return;  // it is gone, and the module with it
    Cuda().CtxSynchronize();          // a kernel of it may be running
    Cuda().ModuleUnload(module_);
  }

  std::string Load() { return CudaError("cuModuleLoadData", Cuda().ModuleLoadData(&module_, image_.image)); }

  bool Is(const ModuleImage& image, const void* code) const {
    return code == code_.get() && std::memcmp(image.image, image_.image, image.bytes) == 0;
  }

  // Only ever raises the limit: another executable may launch the same function with more.
  std::string AllowShared(CUfunction function, unsigned dynamic_bytes) const {
    int static_bytes = 0;
    std::string error =
        CudaError("cuFuncGetAttribute", Cuda().FuncGetAttribute(&static_bytes, kFunctionStaticSharedBytes, function));
    if (!error.empty() || static_bytes + dynamic_bytes <= kDefaultSharedBytes) return error;
    const std::lock_guard<std::mutex> lock(mutex_);
    unsigned& allowed = allowed_[function];
    if (dynamic_bytes <= allowed) return "";
    error = CudaError("cuFuncSetAttribute",
                      Cuda().FuncSetAttribute(function, kFunctionMaxDynamicSharedBytes, dynamic_bytes));
    if (error.empty()) allowed = dynamic_bytes;
    return error;
  }

  CUmodule module() const { return module_; }

 private:
  const CUcontext context_;
  const ModuleImage image_;
  const std::shared_ptr<const void> code_;  // that has the image; null: it stays for the process's life
  CUmodule module_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::unordered_map<CUfunction, unsigned> allowed_;
};

namespace {

class ModuleCache {
 public:
  std::string Get(CUcontext context, const ModuleImage& image, const std::shared_ptr<const void>& code,
                  std::shared_ptr<const GpuModule>* module) {
    const std::string_view bytes(static_cast<const char*>(image.image), image.bytes);
    const auto key = std::make_tuple(context, std::hash<std::string_view>()(bytes), image.bytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    auto [it, end] = modules_.equal_range(key);
    while (it != end) {
      *module = it->second.lock();
      if (*module != nullptr && (*module)->Is(image, code.get())) return "";
      it = *module == nullptr ? modules_.erase(it) : std::next(it);
    }
    const auto made = std::make_shared<GpuModule>(context, image, code);
    const std::string error = made->Load();
    if (!error.empty()) return error;
    modules_.emplace(key, made);
    if (code == nullptr) kept_.push_back(made);
    *module = made;
    return "";
  }

 private:
  std::mutex mutex_;
  std::multimap<std::tuple<CUcontext, std::size_t, std::int64_t>, std::weak_ptr<const GpuModule>> modules_;
  std::vector<std::shared_ptr<const GpuModule>> kept_;
};

ModuleCache& Modules() {
  static auto* cache = new ModuleCache;
  return *cache;
}

// Kernels made for compute capability 9.0 and later wait by themselves (tfs_await_dependencies in emit/cuda_prelude.cu).
std::string FindWhetherItWaits(GpuLaunch* launch) {
  int made_for = 0;
  const std::string error =
      CudaError("cuFuncGetAttribute", Cuda().FuncGetAttribute(&made_for, kFunctionPtxVersion, launch->function));
  launch->waits = made_for >= 90;
  return error;
}

std::string CheckResidency(const GpuLaunch& launch) {
  CUdevice device = 0;
  int processors = 0, supported = 0, blocks = 0;
  std::string error = CudaError("cuCtxGetDevice", Cuda().CtxGetDevice(&device));
  if (error.empty()) {
    error = CudaError("cuDeviceGetAttribute",
                      Cuda().DeviceGetAttribute(&processors, kDeviceMultiprocessorCount, device));
  }
  if (error.empty()) {
    error = CudaError("cuDeviceGetAttribute", Cuda().DeviceGetAttribute(&supported, kDeviceCooperativeLaunch, device));
  }
  if (error.empty()) {
    const int threads = static_cast<int>(launch.block);
    error = CudaError("cuOccupancyMaxActiveBlocksPerMultiprocessor",
                      Cuda().OccupancyMaxActiveBlocks(&blocks, launch.function, threads, launch.dynamic_shared_bytes));
  }
  if (!error.empty()) return error;
  if (supported == 0) return "the device has no cooperative launch";
  const std::int64_t wanted = launch.grid;
  const std::int64_t resident = std::int64_t{processors} * blocks;
  if (wanted <= resident) return "";
  return std::string("cooperative launch of ") + launch.symbol + " wants " + std::to_string(wanted) +
         " blocks, the device holds " + std::to_string(resident);
}

// Counters of grid barriers. Every barrier leaves them as the next one needs them, so they are cleared once.
std::string MakeBarriers(CUcontext context, Executable* executable) {
  if (executable->barriers == 0) return "";
  const std::size_t bytes = executable->barriers * kBarrierBytes;
  CUdeviceptr memory = 0;
  std::string error = CudaError("cuMemAlloc", Cuda().MemAlloc(&memory, bytes));
  if (!error.empty()) return error;
  executable->barrier_memory = std::shared_ptr<char>(reinterpret_cast<char*>(memory), [context](char* pointer) {
    ScopedContext current(context);
    Cuda().MemFree(DevicePointer(pointer));  // waits for the kernels that use it
  });
  error = CudaError("cuMemsetD8Async", Cuda().MemsetD8Async(memory, 0, bytes, nullptr));
  return error.empty() ? CudaError("cuStreamSynchronize", Cuda().StreamSynchronize(nullptr)) : error;
}

// Operands that no step before it has written, as bits: weights, mostly.
unsigned FromOutside(const LibraryStep& call) {
  unsigned bits = 0;
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    const Space space = call.args[i].space;
    if (space == Space::kInput || space == Space::kVariable) bits |= 1U << i;
  }
  return bits;
}

// Operands that may lie at any multiple of an element where not all buffers of a key are aligned, as bits: inputs and
// variables, and outputs, which of a loop's body are rows of a tensor. Memory that is ours alone is always aligned.
unsigned MayBeUnaligned(const LibraryStep& call) {
  unsigned bits = 0;
  for (std::size_t i = 0; i < call.args.size(); ++i) {
    const Operand& operand = call.args[i];
    const bool ours = operand.space == Space::kFresh || operand.space == Space::kArena;
    if (!ours) bits |= 1U << i;
  }
  return bits;
}

}  // namespace

std::string PrepareGpu(CUcontext context, bool aligned, GraphCounters* counters, GraphPlaces* places,
                       Executable* executable) {
  std::vector<std::shared_ptr<const GpuModule>>& modules = executable->loaded;
  for (const ModuleImage& image : executable->modules) {
    const std::string error = Modules().Get(context, image, executable->code, &modules.emplace_back());
    if (!error.empty()) return error;
  }
  const bool large = executable->bytes > static_cast<std::int64_t>(CacheBytes());
  const std::size_t workspace = CallWorkspaceBytes(executable->bytes), ample = AmpleWorkspaceBytes(executable->bytes);
  for (Step& step : executable->steps) {
    std::string error;
    if (auto* call = std::get_if<LibraryStep>(&step)) {
      const CallSite site{large ? FromOutside(*call) : 0, aligned ? 0 : MayBeUnaligned(*call), workspace, ample};
      error = call->call->Prepare(context, site, &call->on_device);
    }
    if (!error.empty()) return error;
    auto* launch = std::get_if<GpuLaunch>(&step);
    if (launch == nullptr) continue;
    const GpuModule& module = *modules[launch->module];
    error = CudaError("cuModuleGetFunction",
                      Cuda().ModuleGetFunction(&launch->function, module.module(), launch->symbol));
    if (error.empty()) error = FindWhetherItWaits(launch);
    if (error.empty()) error = module.AllowShared(launch->function, launch->dynamic_shared_bytes);
    if (error.empty() && launch->cooperative) error = CheckResidency(*launch);
    if (!error.empty()) return error;
  }
  const std::string error = MakeBarriers(context, executable);
  if (!error.empty()) return error;
  executable->graph = std::make_shared<StepGraph>(counters, places);
  return "";
}

}  // namespace tf_stitch
