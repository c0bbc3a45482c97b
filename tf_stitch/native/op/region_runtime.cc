#include "op/region_runtime.h"

#include <algorithm>
#include <system_error>
#include <thread>

#include "op/loaded_modules.h"
#include "op/step_labels.h"

namespace tf_stitch {
namespace {

constexpr std::size_t kMostSlots = 512;  // of a region; the one not used for longest is dropped

// Regions that lost their last kernel, and have not been told to Python.
struct LeftRegions {
  std::mutex mutex;
  std::vector<std::int64_t> regions;
  bool telling = false;  // a thread is at it
};

void TellLeft(std::int64_t region) {
  static auto* left = new LeftRegions;
  {
    const std::lock_guard<std::mutex> lock(left->mutex);
    left->regions.push_back(region);
    if (left->telling) return;
    left->telling = true;
  }
  const auto tell = [] {
    while (true) {
      std::vector<std::int64_t> regions;
      {
        const std::lock_guard<std::mutex> lock(left->mutex);
        if (left->regions.empty()) {
          left->telling = false;
          return;
        }
        regions.swap(left->regions);
      }
      const CallbackGate<Callbacks>::Entry entry(&Gate());
      if (entry.get() == nullptr || entry.get()->left == nullptr) continue;
      for (const std::int64_t one : regions) entry.get()->left(one);
    }
  };
  try {
    std::thread(tell).detach();
  } catch (const std::system_error&) {  // the next region to leave tries again
    const std::lock_guard<std::mutex> lock(left->mutex);
    left->telling = false;
  }
}

bool SameKey(const Slot& slot, const std::int64_t* key, std::size_t n) {
  return slot.key.size() == n && std::memcmp(slot.key.data(), key, n * sizeof(*key)) == 0;
}

}  // namespace

std::string ShapeText(const std::vector<std::int64_t>& key) {
  std::string text;
  for (std::size_t at = 1; at < key.size();) {  // flags come first
    const std::int64_t rank = key[at++];
    text += text.empty() ? "[" : " [";
    for (std::int64_t i = 0; i < rank && at < key.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(key[at++]);
    text += "]";
  }
  return text;
}

Counters& GlobalCounters() {
  static auto* counters = new Counters;
  return *counters;
}

RegionRuntime::~RegionRuntime() {  // executables count into what goes before them
  std::atomic_store(&last_, std::shared_ptr<const Slot>());
  slots_.clear();
}

void RegionRuntime::Enter() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++kernels_;
}

void RegionRuntime::Leave() {
  // Without callbacks the program ends: nothing could be built anew, and contexts may be gone.
  const CallbackGate<Callbacks>::Entry entry(&Gate());
  std::map<std::vector<std::int64_t>, std::shared_ptr<Slot>> gone;  // freed without the lock: CUDA may wait for kernels
  std::shared_ptr<const Slot> last;
  std::shared_ptr<const FallbackSubgraph> fallback;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--kernels_ != 0 || entry.get() == nullptr || converted()) return;
    gone.swap(slots_);
    last = std::atomic_exchange(&last_, std::shared_ptr<const Slot>());
    fallback.swap(fallback_);
  }
  gone.clear();  // before Python frees the kernels' code
  last.reset();
  TellLeft(region_);
}

int RegionRuntime::kernels() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return kernels_;
}

std::shared_ptr<const Slot> RegionRuntime::Find(const std::int64_t* key, std::size_t n) {
  std::shared_ptr<const Slot> last = std::atomic_load_explicit(&last_, std::memory_order_acquire);
  if (last != nullptr && SameKey(*last, key, n)) return last;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = slots_.find(std::vector<std::int64_t>(key, key + n));
  if (it == slots_.end() || !it->second->built) return nullptr;
  const std::shared_ptr<Slot>& slot = it->second;
  slot->used = ++clock_;
  if (slot->pending) return std::chrono::steady_clock::now() < slot->ask_again ? slot : nullptr;
  std::atomic_store_explicit(&last_, std::shared_ptr<const Slot>(slot), std::memory_order_release);
  return slot;
}

std::shared_ptr<const Slot> RegionRuntime::Resolve(const std::vector<std::int64_t>& key, const Extents& extents) {
  GlobalCounters().misses.fetch_add(1, std::memory_order_relaxed);
  CallbackGate<Callbacks>::Entry entry(&Gate());
  std::shared_ptr<Slot> slot;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    auto it = slots_.find(key);
    if (it != slots_.end() && !(it->second->built && it->second->pending)) {
      slot = it->second;
      built_.wait(lock, [&slot] { return slot->built; });
      return slot;
    }
    const std::shared_ptr<const Slot> before = it == slots_.end() ? nullptr : it->second;
    if (entry.get() == nullptr && before == nullptr && !converted()) return nullptr;
    slot = NewSlot(key);
    slot->variable_types = extents.variable_types;
    if (before != nullptr) slot->interrupted = before->interrupted;
    if (entry.get() == nullptr && !converted()) {  // nobody is left to ask again
      slot->reason = before->reason.empty() ? kNothingBuilt : before->reason;
      slot->built = true;
      return slot;
    }
  }
  if (converted()) {
    TakeFromModule(extents, slot.get());
  } else {
    Build(*entry.get(), extents, slot.get());
  }
  if (slot->executable != nullptr && !converted()) {
    if (const std::optional<Ruling> ruling = Recalled(key)) slot->check.Decide(*ruling);
  }
  if (slot->updates_state) updates_state.store(true);
  std::lock_guard<std::mutex> lock(mutex_);
  slot->built = true;
  built_.notify_all();
  return slot;
}

bool RegionRuntime::Shrink(const std::shared_ptr<const Slot>& slot, const Extents& extents, std::string* least) {
  const std::lock_guard<std::mutex> turn(shrinking_);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = slots_.find(slot->key);
    if (it == slots_.end() || it->second != slot) return true;  // another call has seen to it
  }
  *least = slot->least;
  if (!least->empty()) return false;
  const CallbackGate<Callbacks>::Entry entry(&Gate());
  if (entry.get() == nullptr || entry.get()->smaller == nullptr) return false;
  const auto smaller = std::make_shared<Slot>();
  smaller->key = slot->key;
  smaller->variable_types = slot->variable_types;
  smaller->fallback_bytes = slot->fallback_bytes;
  Extents left = extents;  // without what library calls take beside the arena
  if (left.on_gpu && left.memory.known()) {
    left.memory.in_use += static_cast<std::int64_t>(slot->executable->WorkspaceBytes());
  }
  BuildSmaller(*entry.get(), left, smaller.get());
  if (smaller->executable == nullptr) {
    *least = slot->least = smaller->reason;
    return false;
  }
  smaller->check.Decide({});  // there is no memory for two forms of the region
  smaller->built = true;
  if (smaller->updates_state) updates_state.store(true);
  const std::lock_guard<std::mutex> lock(mutex_);
  smaller->used = ++clock_;
  slots_[smaller->key] = smaller;
  std::atomic_store(&last_, std::shared_ptr<const Slot>(smaller));
  return true;
}

std::shared_ptr<const Slot> RegionRuntime::Keep(const std::vector<std::int64_t>& key) {
  const auto find = [&] {
    const auto known = slots_.find(key);
    return known == slots_.end() ? nullptr : known->second;
  };
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const std::shared_ptr<Slot> known = find()) return known;
  }
  const std::optional<Ruling> ruling = Recalled(key);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const std::shared_ptr<Slot> known = find()) return known;
  const std::shared_ptr<Slot> slot = NewSlot(key);
  if (ruling) slot->check.Decide(*ruling);
  slot->built = true;
  return slot;
}

std::optional<Ruling> RegionRuntime::Recalled(const std::vector<std::int64_t>& key) const {
  CallbackGate<Callbacks>::Entry entry(&Gate());
  if (!ProfitabilityCheckWanted() || entry.get() == nullptr || entry.get()->recall == nullptr) return std::nullopt;
  const auto n = static_cast<std::int64_t>(key.size());
  std::int64_t from_call = 0;
  switch (InItsOwnThread([&] { return entry.get()->recall(region_, device_, key.data(), n, &from_call); })) {
    case kStitchedVerdict:
      return Ruling{Form::kStitched, 0};
    case kFallbackVerdict:
      return Ruling{Form::kFallback, from_call};
    default:
      return std::nullopt;
  }
}

Ruling RegionRuntime::Verdict(const Slot& slot, const ProfitabilityCheck::Outcome& found) const {
  CallbackGate<Callbacks>::Entry entry(&Gate());
  if (entry.get() == nullptr) return {};  // the program ends
  if (entry.get()->settle == nullptr) return {found.form, 0};
  std::int64_t from_call = 0;
  const auto n = static_cast<std::int64_t>(slot.key.size());
  const int verdict = InItsOwnThread([&] {
    return entry.get()->settle(region_, device_, slot.key.data(), n, found.form == Form::kFallback, found.stitched_us,
                               found.fallback_us, found.pairs, found.call, &from_call);
  });
  return verdict == kFallbackVerdict ? Ruling{Form::kFallback, from_call} : Ruling{};
}

bool RegionRuntime::WantsLabels(const Slot& slot) {
  return Profiled() && slot.executable != nullptr && std::atomic_load(&slot.executable->labels) == nullptr;
}

void RegionRuntime::Label(const Slot& slot) const {
  std::vector<std::string> labels(slot.executable->steps.size());
  CallbackGate<Callbacks>::Entry entry(&Gate());
  if (!converted() && entry.get() != nullptr && entry.get()->labels != nullptr) {
    const auto n = static_cast<std::int64_t>(slot.key.size());
    InItsOwnThread([&] { return entry.get()->labels(region_, device_, slot.key.data(), n, &labels), 0; });
  }
  if (std::all_of(labels.begin(), labels.end(), [](const std::string& label) { return label.empty(); })) labels.clear();
  std::atomic_store(&slot.executable->labels, std::make_shared<const std::vector<std::string>>(std::move(labels)));
}

void RegionRuntime::NotTimed(const std::string& reason) const {
  CallbackGate<Callbacks>::Entry entry(&Gate());
  if (reason.empty() || entry.get() == nullptr || entry.get()->not_timed == nullptr) return;
  InItsOwnThread([&] { return entry.get()->not_timed(region_, reason.c_str()), 0; });
}

std::shared_ptr<Slot> RegionRuntime::NewSlot(const std::vector<std::int64_t>& key) {
  DropUnused();
  std::shared_ptr<Slot> slot = slots_[key] = std::make_shared<Slot>();
  slot->key = key;
  slot->used = ++clock_;
  return slot;
}

void RegionRuntime::DropUnused() {
  if (slots_.size() < kMostSlots) return;
  auto oldest = slots_.end();
  for (auto it = slots_.begin(); it != slots_.end(); ++it) {
    if (it->second->built && (oldest == slots_.end() || it->second->used < oldest->second->used)) oldest = it;
  }
  if (oldest == slots_.end()) return;
  if (std::atomic_load(&last_) == oldest->second) std::atomic_store(&last_, std::shared_ptr<const Slot>());
  slots_.erase(oldest);  // a call that runs it holds it
}

std::shared_ptr<const FallbackSubgraph> RegionRuntime::Fallback(const std::string& reason,
                                                                 const ParseFallback& parse) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto known = reasons_.find(reason);
    if (known != reasons_.end() && (known->second.through_python || fallback_ != nullptr)) {
      ++known->second.count;
      return known->second.through_python ? nullptr : fallback_;
    }
  }
  if (converted()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fallback_ == nullptr && !converted_->own_nodes.empty()) fallback_ = parse(converted_->own_nodes, context_ != nullptr);
    ++reasons_.emplace(reason, Reason{fallback_ == nullptr, 0}).first->second.count;
    return fallback_;
  }
  CallbackGate<Callbacks>::Entry entry(&Gate());
  FallbackSubgraphResult result;
  const int code = entry.get() == nullptr ? kNoThread : InItsOwnThread([&] {
    return entry.get()->fallback_subgraph(region_, reason.c_str(), &result);
  });
  const bool given = code == 0;
  std::lock_guard<std::mutex> lock(mutex_);
  if (code == kNoThread) return fallback_;  // Python was not asked: it is, the next time
  if (given && fallback_ == nullptr) {
    fallback_ = parse(result.function, context_ != nullptr);
  }
  Reason& record = reasons_.emplace(reason, Reason{!given || fallback_ == nullptr, 0}).first->second;
  ++record.count;
  return record.through_python ? nullptr : fallback_;
}

void RegionRuntime::AddReasons(std::vector<ReasonRecord>* records) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [reason, record] : reasons_) {
    if (!reason.empty() && !record.through_python) records->push_back({region_, reason, record.count});
  }
}

void RegionRuntime::AddShapes(std::vector<ShapeRecord>* records) {
  if (!converted()) return;
  const std::string model = ModelOf(converted_->module);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, slot] : slots_) {
    if (slot->built) records->push_back({model, converted_->region, ShapeText(key), slot->runs, slot->fallbacks});
  }
}

void RegionRuntime::AddGraphs(std::vector<GraphRecord>* records) {
  if (context_ == nullptr) return;
  records->push_back({region_, device_,
                      {graphs_.graphs, graphs_.instances, graphs_.making_ns, graphs_.launches, graphs_.host_ns,
                       graphs_.known, graphs_.known_ns, graphs_.updates, graphs_.programmatic, graphs_.refused,
                       graphs_.given_up, graphs_.failures},
                      graphs_.Error()});
}

}  // namespace tf_stitch
