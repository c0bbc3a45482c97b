// Reads a device and words of an executable a line, and prints whether its calls can be made there, or behind "load"
// whether all can be loaded that it runs: by a driver and a library that only keep books. Attentions of one batch have no
// kernel.
#include <cstdio>
#include <iostream>
#include <memory>
#include <sstream>

#include "cuda/call_trial.h"
#include "op/executable_format.h"

namespace tf_stitch {
namespace {

bool loaded = false;
int retained = 0, made = 0;
CUcontext current = nullptr;

CUcontext ContextOf(CUdevice device) { return reinterpret_cast<CUcontext>(static_cast<std::intptr_t>(0x100 + device)); }

CudaDriver FakeDriver() {
  CudaDriver driver{};
  driver.loaded = loaded;
  driver.CtxGetCurrent = [](CUcontext* context) { return *context = current, 0; };
  driver.CtxPushCurrent = [](CUcontext context) { return current = context, 0; };
  driver.CtxPopCurrent = [](CUcontext* context) { return *context = current, current = nullptr, 0; };
  driver.DevicePrimaryCtxRetain = [](CUcontext* context, CUdevice device) {
    return ++retained, *context = ContextOf(device), device > 1 ? 101 : 0;
  };
  return driver;
}

struct Call final : LibraryCall {
  explicit Call(const AttentionSpec& spec) : spec(spec) {}
  int arguments() const override { return 4; }
  std::string RunOnHost(void* const*, tsl::thread::ThreadPool*) const override { return ""; }
  std::string Prepare(CUcontext context, const CallSite& site, std::shared_ptr<DeviceCall>*) const override {
    ++made;
    if (context != current || site.unaligned != 0) return "in another context, or anywhere in memory";
    return spec.batch == 1 ? "no kernel" : "";
  }
  const AttentionSpec spec;
};

}  // namespace

const CudaDriver& Cuda() {
  static CudaDriver driver;
  return driver = FakeDriver();
}
std::string CudaError(const char* call, CUresult code) { return code == 0 ? "" : std::string(call) + " failed"; }

std::shared_ptr<const LibraryCall> MakeCall(const GemmSpec&) { return nullptr; }
std::shared_ptr<const LibraryCall> MakeCall(const ConvolutionSpec&) { return nullptr; }
std::shared_ptr<const LibraryCall> MakeCall(const Float8GemmSpec&) { return nullptr; }
std::shared_ptr<const LibraryCall> MakeCall(const AttentionSpec& spec) { return std::make_shared<Call>(spec); }

// Says what is wrong with what it gets.
std::string PrepareGpu(CUcontext context, bool aligned, GraphCounters*, GraphPlaces*, Executable* executable) {
  if (context != current || !aligned) return "in another context, or anywhere in memory";
  return executable->steps.size() == 1 ? "" : "other steps";
}

}  // namespace tf_stitch

int main() {
  for (std::string line; std::getline(std::cin, line); tf_stitch::loaded = true) {
    const bool ahead = line.rfind("load ", 0) == 0;
    std::istringstream numbers(ahead ? line.substr(5) : line);
    int device = 0;
    tf_stitch::Extents nothing;
    nothing.on_gpu = true;
    numbers >> device;
    std::vector<std::int64_t> words;
    for (std::int64_t word; numbers >> word;) words.push_back(word);
    const std::string error =
        ahead ? tf_stitch::LoadAhead(device, words, nothing) : tf_stitch::TryCalls(device, words);
    std::printf("\"%s\", %d retained, %d made%s\n", error.c_str(), tf_stitch::retained, tf_stitch::made,
                tf_stitch::current == nullptr ? "" : ", a context is left");
  }
  return 0;
}
