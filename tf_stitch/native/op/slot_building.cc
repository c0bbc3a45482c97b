// How a slot of a region comes by its executable: from Python, or from the module of a converted model.
#include <chrono>
#include <iostream>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "op/gemm.h"
#include "op/key_flags.h"
#include "op/loaded_modules.h"
#include "op/region_runtime.h"

namespace tf_stitch {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(10);
// Of a build that is interrupted: memory or a disk may be short for a moment, or a minute. Each wait is ten times the
// one before it.
constexpr int kMostInterrupted = 4;
constexpr auto kFirstWait = std::chrono::milliseconds(500);

constexpr std::size_t kMostSaid = 1000;  // lines: a server may load a model each hour

// Once for each model and reason: it may have many regions, and meet many shapes.
void SayFallback(const ConvertedRegion& region, const std::vector<std::int64_t>& key, const std::string& reason) {
  static auto* mutex = new std::mutex;
  static auto* said = new std::set<std::string>;
  const std::string model = ModelOf(region.module);
  const std::lock_guard<std::mutex> lock(*mutex);
  if (said->size() >= kMostSaid || !said->insert(model + "\n" + reason).second) return;
  std::cerr << "[tf_stitch] " << model << ": region " << region.region << " runs TensorFlow's own ops for "
            << ShapeText(key) << ": " << reason << std::endl;
}

}  // namespace

void RegionRuntime::Build(const Callbacks& callbacks, const Extents& extents, Slot* slot) const {
  GlobalCounters().builds.fetch_add(1, std::memory_order_relaxed);
  BuildResult result;
  const auto n = static_cast<std::int64_t>(slot->key.size());
  const int code = InItsOwnThread([&] {
    return callbacks.build(region_, device_, slot->key.data(), n, extents.memory.in_use, extents.memory.limit, &result);
  });
  slot->fallback_bytes = result.fallback_bytes;
  if (code == kBuildPending) {
    slot->pending = true;
    slot->ask_again = std::chrono::steady_clock::now() + kPatience;
    return;
  }
  if (code != 0 || result.words.empty()) {
    slot->reason = code == kNoThread          ? "there is no thread to be had to build it in"
                   : result.error.empty() ? kNothingBuilt
                                          : result.error;
    if (code == kBuildInterrupted || code == kNoThread) TryLater(slot);
    return;
  }
  Prepare(result.words, extents, nullptr, slot);
}

void RegionRuntime::BuildSmaller(const Callbacks& callbacks, const Extents& extents, Slot* slot) const {
  GlobalCounters().builds.fetch_add(1, std::memory_order_relaxed);
  BuildResult result;
  const auto n = static_cast<std::int64_t>(slot->key.size());
  const int code = InItsOwnThread([&] {
    return callbacks.smaller(region_, device_, slot->key.data(), n, extents.memory.free(), &result);
  });
  if (code == 0 && !result.words.empty()) {
    Prepare(result.words, extents, nullptr, slot);
  } else if (code == 1) {  // else it is asked for again
    slot->reason = result.error.empty() ? kNothingBuilt : result.error;
  }
}

// Kernels and own nodes were timed when the model was converted.
void RegionRuntime::TakeFromModule(const Extents& extents, Slot* slot) const {
  const std::shared_ptr<const AotModule> module = FindModule(converted_->module, &slot->reason);
  AotModule::Device device;
  if (slot->reason.empty() && context_ != nullptr) {
    int major = 0, minor = 0;
    slot->reason = CudaError("cuDeviceGetAttribute", Cuda().DeviceGetAttribute(&major, kDeviceMajor, device_));
    if (slot->reason.empty()) {
      slot->reason = CudaError("cuDeviceGetAttribute", Cuda().DeviceGetAttribute(&minor, kDeviceMinor, device_));
    }
    if (slot->reason.empty()) slot->reason = LoadCublasLt({"libcublasLt.so.12", "libcublasLt.so.13"});
    device = {true, 10 * major + minor};
  }
  std::vector<std::int64_t> words, references;
  if (slot->reason.empty()) {
    slot->reason = module->Words(converted_->region, device, slot->key, &words, &references);
  }
  if (slot->reason.empty()) {
    Extents of_module = extents;
    of_module.references = &references;
    Prepare(words, of_module, module, slot);
  }
  if (slot->executable == nullptr) {
    SayFallback(*converted_, slot->key, slot->reason);
  } else {
    slot->check.Decide({});
  }
}

void RegionRuntime::Prepare(const std::vector<std::int64_t>& words, const Extents& extents,
                            std::shared_ptr<const void> code, Slot* slot) const {
  auto executable = std::make_unique<Executable>();
  executable->code = std::move(code);
  slot->reason = Decode(words, extents, executable.get());
  if (!slot->reason.empty()) {
    slot->invalid = true;
    return;
  }
  if (extents.refuse) slot->reason = extents.refuse(*executable);
  if (!slot->reason.empty()) return;
  if (context_ != nullptr) {
    ScopedContext current(context_);
    const bool aligned = (slot->key[0] & KeyFlags::kAllAligned) != 0;
    slot->reason = PrepareGpu(context_, aligned, &graphs_, &places_, executable.get());
    if (!slot->reason.empty()) return;
  }
  slot->updates_state = !executable->state.empty();
  slot->executable = std::move(executable);
}

void RegionRuntime::TryLater(Slot* slot) {
  if (++slot->interrupted >= kMostInterrupted) return;
  auto wait = kFirstWait;
  for (int i = 1; i < slot->interrupted; ++i) wait *= 10;
  slot->pending = true;
  slot->ask_again = std::chrono::steady_clock::now() + wait;
}

}  // namespace tf_stitch
