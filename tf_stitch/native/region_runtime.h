// Executables of one region on one device, by shape key; shared by all kernel instances of that region.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "callbacks.h"
#include "executable.h"

namespace tf_stitch {

// The outcome of building for one key. Immutable once `Find` or `Resolve` has returned it.
struct Slot {
  std::vector<std::int64_t> key;
  std::unique_ptr<Executable> executable;  // null: `reason` says why
  bool invalid = false;                    // Python sent words that make no sense: an error, not a fallback
  bool updates_state = false;
  std::vector<std::int32_t> variable_types;  // TensorFlow's DataType, as when it was built
  std::string reason;
  bool pending = false;  // Python builds it beside the program: the region's own nodes run until then
  std::chrono::steady_clock::time_point ask_again;  // if pending
  bool built = false;  // guarded by RegionRuntime::mutex_ until true
  std::int64_t used = 0;  // guarded by RegionRuntime::mutex_; when it was looked up last
};

class RegionRuntime {
 public:
  RegionRuntime(std::int64_t region, int device, CUcontext context, std::vector<std::int32_t> signature)
      : region_(region), device_(device), context_(context), signature_(std::move(signature)) {}

  // The slot of `key` if it is built, or pending and not yet to be asked for again.
  std::shared_ptr<const Slot> Find(const std::int64_t* key, std::size_t n);

  // Builds the slot of `key`, or waits for the thread that does. Calls Python: the caller holds no lock.
  // Returns null when there are no callbacks.
  std::shared_ptr<const Slot> Resolve(const std::vector<std::int64_t>& key, const Extents& extents);

  std::int64_t region() const { return region_; }
  int device() const { return device_; }
  CUcontext context() const { return context_; }
  const std::vector<std::int32_t>& signature() const { return signature_; }

  // Becomes true with the first executable that updates a variable: later calls lock exclusively at once.
  std::atomic<bool> updates_state{false};
  alignas(64) std::atomic<std::int64_t> runs{0};
  std::atomic<std::int64_t> fallbacks{0};

 private:
  void Build(const Callbacks& callbacks, const Extents& extents, Slot* slot) const;
  void DropUnused();  // mutex_ is held

  const std::int64_t region_;
  const int device_;
  const CUcontext context_;
  const std::vector<std::int32_t> signature_;
  std::shared_ptr<const Slot> last_;  // by std::atomic_load and std::atomic_store
  std::mutex mutex_;
  std::condition_variable built_;
  std::int64_t clock_ = 0;  // lookups
  std::map<std::vector<std::int64_t>, std::shared_ptr<Slot>> slots_;
};

// The runtime of a region on a device (-1: CPU); lives for the process. `signature` is what all nodes of a region share
// (numbers and types of inputs and outputs); null when it differs from the first node's.
RegionRuntime* FindRuntime(std::int64_t region, int device, CUcontext context,
                           const std::vector<std::int32_t>& signature);

struct Counters {
  std::atomic<std::int64_t> misses{0};
  std::atomic<std::int64_t> builds{0};
};
Counters& GlobalCounters();

// Sums a counter over devices; region < 0 means every region.
std::int64_t SumRuns(std::int64_t region);
std::int64_t SumFallbacks(std::int64_t region);

}  // namespace tf_stitch
