#include "op/runtime_registry.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace tf_stitch {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::tuple<std::int64_t, int, CUcontext>, std::unique_ptr<RegionRuntime>> runtimes;
};

Registry& Runtimes() {
  static auto* registry = new Registry;
  return *registry;
}

std::int64_t Sum(std::int64_t region, std::atomic<std::int64_t> RegionRuntime::*counter) {
  Registry& registry = Runtimes();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::int64_t total = 0;
  for (const auto& [key, runtime] : registry.runtimes) {
    if (region < 0 || runtime->region() == region) total += (runtime.get()->*counter).load(std::memory_order_relaxed);
  }
  return total;
}

template <typename Record>
std::vector<Record> Collect(void (RegionRuntime::*add)(std::vector<Record>*)) {
  Registry& registry = Runtimes();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<Record> records;
  for (const auto& [key, runtime] : registry.runtimes) (runtime.get()->*add)(&records);
  return records;
}

}  // namespace

RegionRuntime* FindRuntime(std::int64_t region, int device, CUcontext context,
                           const std::vector<std::int32_t>& signature) {
  Registry& registry = Runtimes();
  std::lock_guard<std::mutex> lock(registry.mutex);
  auto& runtime = registry.runtimes[{region, device, context}];
  if (runtime == nullptr) runtime = std::make_unique<RegionRuntime>(region, device, context, signature);
  return runtime->signature() == signature ? runtime.get() : nullptr;
}

std::int64_t SumRuns(std::int64_t region) { return Sum(region, &RegionRuntime::runs); }
std::int64_t SumFallbacks(std::int64_t region) { return Sum(region, &RegionRuntime::fallbacks); }
std::int64_t SumPreferredFallbacks(std::int64_t region) { return Sum(region, &RegionRuntime::preferred_fallbacks); }
std::int64_t SumShadows(std::int64_t region) { return Sum(region, &RegionRuntime::shadows); }

int KernelsOf(std::int64_t region) {
  Registry& registry = Runtimes();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  int kernels = 0;
  for (const auto& [key, runtime] : registry.runtimes) {
    if (std::get<0>(key) == region) kernels += runtime->kernels();
  }
  return kernels;
}

std::vector<GraphRecord> AllGraphs() { return Collect(&RegionRuntime::AddGraphs); }
std::vector<ReasonRecord> AllReasons() { return Collect(&RegionRuntime::AddReasons); }

}  // namespace tf_stitch
