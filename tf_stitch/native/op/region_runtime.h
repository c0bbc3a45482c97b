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
#include <optional>
#include <string>
#include <vector>

#include "op/callbacks.h"
#include "op/converted_regions.h"
#include "cuda/cuda_graph.h"
#include "op/executable.h"
#include "op/profitability_check.h"

namespace tf_stitch {

class FallbackSubgraph;

// The outcome of building for one key. But for its check, immutable once `Find` or `Resolve` has returned it.
struct Slot {
  std::vector<std::int64_t> key;
  std::unique_ptr<Executable> executable;  // null: `reason` says why
  bool invalid = false;                    // Python sent words that make no sense: an error, not a fallback
  bool updates_state = false;
  std::vector<std::int32_t> variable_types;  // TensorFlow's DataType, as when it was built
  std::string reason;
  std::int64_t fallback_bytes = 0;  // that the region's own nodes have alive at once; 0: nobody knows
  // Python builds it beside the program, for no `reason`, or is asked again for what was interrupted: until then the
  // region's own nodes run.
  bool pending = false;
  int interrupted = 0;  // builds that failed for a reason that may pass
  std::chrono::steady_clock::time_point ask_again;  // if pending
  mutable std::string least;  // what Python says if no executable takes less; guarded by RegionRuntime::shrinking_
  mutable ProfitabilityCheck check;
  mutable std::atomic<std::int64_t> runs{0}, fallbacks{0};  // of a converted model's region
  bool built = false;  // guarded by RegionRuntime::mutex_ until true
  std::int64_t used = 0;  // guarded by RegionRuntime::mutex_; when it was looked up last
};

// How often a region's own nodes ran natively for a reason.
struct ReasonRecord {
  std::int64_t region;
  std::string reason;
  std::int64_t count;
};

// What a region of a converted model has done for a shape.
struct ShapeRecord {
  std::string model;
  std::int64_t region;  // in the module
  std::string shape;
  std::int64_t runs, fallbacks;
};

// Of a key, as "[32,128] [128]": of the inputs, then of the variables.
std::string ShapeText(const std::vector<std::int64_t>& key);

// What became of the CUDA graphs of a region on a device.
struct GraphRecord {
  std::int64_t region;
  int device;
  std::int64_t counts[12];  // graphs, instances, making_ns, launches, host_ns, known, known_ns, updates, programmatic,
                            // refused, given_up, failures
  std::string error;       // of the last failure
};

// A slot's reason where Python has said none.
inline constexpr char kNothingBuilt[] = "nothing was built for these shapes";

class RegionRuntime {
 public:
  // `converted`: null of a session's region.
  RegionRuntime(std::int64_t region, std::shared_ptr<const ConvertedRegion> converted, int device, CUcontext context,
                std::vector<std::int32_t> signature)
      : region_(region),
        converted_(std::move(converted)),
        device_(device),
        context_(context),
        signature_(std::move(signature)) {}
  ~RegionRuntime();

  // A kernel that is to run the region, and one that never will again. With the last one go the executables and the
  // fallback subgraph: a function that was traced anew and freed leaves its region to nobody. Python is told, later and in
  // another thread, for who frees a function may hold Python's lock. Counts stay, for the report.
  void Enter();
  void Leave();
  int kernels();

  // The slot of `key` if it is built, or pending and not yet to be asked for again.
  std::shared_ptr<const Slot> Find(const std::int64_t* key, std::size_t n);

  // Builds the slot of `key`, or waits for the thread that does. Calls Python: the caller holds no lock.
  // Returns null when there are no callbacks.
  std::shared_ptr<const Slot> Resolve(const std::vector<std::int64_t>& key, const Extents& extents);

  // There was no memory for a slot's kernels: whether another slot has its place now, whose kernels take less. `least`
  // gets what Python says if there is none. Calls Python: the caller holds no lock.
  bool Shrink(const std::shared_ptr<const Slot>& slot, const Extents& extents, std::string* least);

  // The slot of `key`, with no executable: for what has none of its own, but is timed as a whole.
  std::shared_ptr<const Slot> Keep(const std::vector<std::int64_t>& key);

  // The region's own nodes, to run in place of its kernels; null where that has to be done through Python. Asks Python
  // once for every reason ("": they are timed), which reports it: the caller holds no lock.
  using ParseFallback = std::function<std::shared_ptr<const FallbackSubgraph>(const std::string& definition, bool on_gpu)>;
  std::shared_ptr<const FallbackSubgraph> Fallback(const std::string& reason, const ParseFallback& parse);

  // What the check of a slot has measured: Python keeps it for later processes, and says which form runs from now on. It
  // may be another if an equal region came before this one. Calls Python: the caller holds no lock.
  Ruling Verdict(const Slot& slot, const ProfitabilityCheck::Outcome& found) const;

  // What an earlier check, maybe of another region or process, has found. Calls Python: the caller holds no lock.
  std::optional<Ruling> Recalled(const std::vector<std::int64_t>& key) const;

  // Whether a profiler is there, and no other has been: then the slot's steps have yet to be named.
  static bool WantsLabels(const Slot& slot);

  // Asks Python what profilers are to call the slot's steps. Calls Python: the caller holds no lock.
  void Label(const Slot& slot) const;

  // Tells Python why the region's nodes are not timed. The caller holds no lock.
  void NotTimed(const std::string& reason) const;

  void AddReasons(std::vector<ReasonRecord>* records);
  void AddGraphs(std::vector<GraphRecord>* records);
  void AddShapes(std::vector<ShapeRecord>* records);

  std::int64_t region() const { return region_; }
  int device() const { return device_; }
  CUcontext context() const { return context_; }
  const std::vector<std::int32_t>& signature() const { return signature_; }

  // Becomes true with the first executable that updates a variable: later calls lock exclusively at once.
  std::atomic<bool> updates_state{false};
  alignas(64) std::atomic<std::int64_t> runs{0};
  std::atomic<std::int64_t> fallbacks{0};  // by the region's own nodes, for a reason
  std::atomic<std::int64_t> preferred_fallbacks{0};  // by the region's own nodes, because they are faster
  std::atomic<std::int64_t> shadows{0};    // runs of the region's own nodes beside its kernels, to time them

 private:
  struct Reason {
    bool through_python;
    std::int64_t count;
  };

  void Build(const Callbacks& callbacks, const Extents& extents, Slot* slot) const;
  void BuildSmaller(const Callbacks& callbacks, const Extents& extents, Slot* slot) const;
  void TakeFromModule(const Extents& extents, Slot* slot) const;
  void Prepare(const std::vector<std::int64_t>& words, const Extents& extents, std::shared_ptr<const void> code,
               Slot* slot) const;
  bool converted() const { return converted_ != nullptr; }
  static void TryLater(Slot* slot);  // a build was interrupted
  std::shared_ptr<Slot> NewSlot(const std::vector<std::int64_t>& key);  // mutex_ is held
  void DropUnused();                                                    // mutex_ is held

  const std::int64_t region_;
  const std::shared_ptr<const ConvertedRegion> converted_;
  const int device_;
  const CUcontext context_;
  const std::vector<std::int32_t> signature_;
  std::shared_ptr<const Slot> last_;  // by std::atomic_load and std::atomic_store
  std::mutex shrinking_;
  std::mutex mutex_;
  std::condition_variable built_;
  std::int64_t clock_ = 0;  // lookups
  std::map<std::vector<std::int64_t>, std::shared_ptr<Slot>> slots_;
  std::shared_ptr<const FallbackSubgraph> fallback_;
  std::map<std::string, Reason> reasons_;
  int kernels_ = 0;  // that are to run it
  mutable GraphCounters graphs_;
  mutable GraphPlaces places_;
};

struct Counters {
  std::atomic<std::int64_t> misses{0};
  std::atomic<std::int64_t> builds{0};
};
Counters& GlobalCounters();

}  // namespace tf_stitch
