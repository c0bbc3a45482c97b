#include "op/runtime_registry.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

namespace tf_stitch {
namespace {

using RuntimeKey = std::tuple<std::int64_t, int, CUcontext>;
using Counter = std::atomic<std::int64_t> RegionRuntime::*;

constexpr Counter kCounters[] = {&RegionRuntime::runs, &RegionRuntime::fallbacks, &RegionRuntime::preferred_fallbacks,
                                 &RegionRuntime::shadows};

struct KnownRuntime {
  std::weak_ptr<RegionRuntime> runtime;
  std::shared_ptr<RegionRuntime> kept;  // the same, of a session
};

struct Registry {
  std::mutex mutex;
  std::map<RuntimeKey, KnownRuntime> runtimes;
  std::int64_t gone[std::size(kCounters)] = {};  // what runtimes had counted that are no more
};

Registry& Runtimes() {
  static auto* registry = new Registry;
  return *registry;
}

// Held by the caller: with the last holder of one goes its entry, for which the lock is wanted.
std::vector<std::shared_ptr<RegionRuntime>> Held() {
  Registry& registry = Runtimes();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<std::shared_ptr<RegionRuntime>> held;
  for (const auto& [key, known] : registry.runtimes) {
    if (auto runtime = known.runtime.lock()) held.push_back(std::move(runtime));
  }
  return held;
}

std::int64_t Gone(Counter counter) {
  Registry& registry = Runtimes();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  return registry.gone[std::find(std::begin(kCounters), std::end(kCounters), counter) - std::begin(kCounters)];
}

void Drop(const RuntimeKey& key, RegionRuntime* runtime) {
  Registry& registry = Runtimes();
  {
    const std::lock_guard<std::mutex> lock(registry.mutex);
    for (std::size_t i = 0; i < std::size(kCounters); ++i) registry.gone[i] += (runtime->*kCounters[i]).load();
    const auto known = registry.runtimes.find(key);
    if (known != registry.runtimes.end() && known->second.runtime.expired()) registry.runtimes.erase(known);
  }
  delete runtime;
}

std::int64_t Sum(std::int64_t region, Counter counter) {
  std::int64_t total = 0;
  for (const auto& runtime : Held()) {
    if (region < 0 || runtime->region() == region) total += (runtime.get()->*counter).load(std::memory_order_relaxed);
  }
  return region < 0 ? total + Gone(counter) : total;
}

template <typename Record>
std::vector<Record> Collect(void (RegionRuntime::*add)(std::vector<Record>*)) {
  std::vector<Record> records;
  for (const auto& runtime : Held()) (runtime.get()->*add)(&records);
  return records;
}

std::shared_ptr<RegionRuntime> OfSignature(std::shared_ptr<RegionRuntime> runtime,
                                           const std::vector<std::int32_t>& signature) {
  return runtime->signature() == signature ? runtime : nullptr;
}

}  // namespace

std::shared_ptr<RegionRuntime> FindRuntime(std::int64_t region, int device, CUcontext context,
                                           const std::vector<std::int32_t>& signature) {
  Registry& registry = Runtimes();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  KnownRuntime& known = registry.runtimes[{region, device, context}];
  if (known.kept == nullptr) {
    known.kept = std::make_shared<RegionRuntime>(region, nullptr, device, context, signature);
    known.runtime = known.kept;
  }
  return OfSignature(known.kept, signature);
}

std::shared_ptr<RegionRuntime> FindRuntime(const std::shared_ptr<const ConvertedRegion>& region, int device,
                                           CUcontext context, const std::vector<std::int32_t>& signature) {
  const RuntimeKey key{region->number, device, context};
  Registry& registry = Runtimes();
  std::shared_ptr<RegionRuntime> runtime;  // let go without the lock
  const std::lock_guard<std::mutex> lock(registry.mutex);
  KnownRuntime& known = registry.runtimes[key];
  runtime = known.runtime.lock();
  if (runtime == nullptr) {
    runtime = {new RegionRuntime(region->number, region, device, context, signature),
               [key](RegionRuntime* gone) { Drop(key, gone); }};
    known.runtime = runtime;
  }
  return OfSignature(runtime, signature);
}

std::int64_t SumRuns(std::int64_t region) { return Sum(region, &RegionRuntime::runs); }
std::int64_t SumFallbacks(std::int64_t region) { return Sum(region, &RegionRuntime::fallbacks); }
std::int64_t SumPreferredFallbacks(std::int64_t region) { return Sum(region, &RegionRuntime::preferred_fallbacks); }
std::int64_t SumShadows(std::int64_t region) { return Sum(region, &RegionRuntime::shadows); }

int KernelsOf(std::int64_t region) {
  int kernels = 0;
  for (const auto& runtime : Held()) {
    if (runtime->region() == region) kernels += runtime->kernels();
  }
  return kernels;
}

std::vector<GraphRecord> AllGraphs() { return Collect(&RegionRuntime::AddGraphs); }
std::vector<ShapeRecord> AllShapes() { return Collect(&RegionRuntime::AddShapes); }
std::vector<ReasonRecord> AllReasons() { return Collect(&RegionRuntime::AddReasons); }

}  // namespace tf_stitch
