#include "op/profitability_check.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "tensorflow/core/util/determinism.h"

namespace tf_stitch {
namespace {

// Before the first sample: libraries try their kernels in the third call, and a CUDA graph is made. Early calls of a
// process are slow anyway, and who measures it leaves them out.
constexpr int kSettlingCalls = 4;
constexpr int kWarmUps = 1;         // of the fallback subgraph before a series: it is instantiated, and touches its memory
constexpr int kSeries = 5;          // pairs; one series is enough to keep the stitched form
// Fewer are, where each run of its kernels was shorter than each of the fallback subgraph: this many pairs, or one pair
// where it was shorter by a factor on a device, whose times nothing else disturbs as much.
constexpr int kClearPairs = 3;
constexpr int kByFar = 2;
// To give it up takes more, for nobody looks again: so many pairs, of which the fallback subgraph has to win so many. By
// chance it does so one time in a hundred.
constexpr int kPairsToGiveUp = 6 * kSeries, kWinsToGiveUp = 22;
constexpr double kSlower = 1.03;    // what counts as slower
// Before this call, and those of twice, four times, ... its number, a region looks for what an equal one has found: those
// that are called equally often change over at one call, in this process as in later ones (jit/profitability.py).
constexpr std::int64_t kFirstLook = 64;

std::atomic<bool> enabled{false};
// Runs of fallback subgraphs in the shadow may take this share of the time since the first check began, in all regions
// together.
std::atomic<double> share{0};
std::atomic<std::int64_t> began_ns{0};
std::atomic<std::int64_t> shadow_ns{0};  // that they took, and are about to take
// From the start of one series to the next, at least: what disturbs one form more than the other (work on a core that it
// shares its loops with) may last that long, and all pairs of a small region would meet it.
std::atomic<std::int64_t> apart_ns{0};

std::int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Whether a run in the shadow may take so long now; then that is reserved.
bool Reserve(std::int64_t ns) {
  const std::int64_t now = Now();
  std::int64_t began = 0;
  if (began_ns.compare_exchange_strong(began, now)) began = now;
  const double most = share.load(std::memory_order_relaxed) * static_cast<double>(now - began);
  std::int64_t spent = shadow_ns.load(std::memory_order_relaxed);
  while (static_cast<double>(spent + ns) <= most) {
    if (shadow_ns.compare_exchange_weak(spent, spent + ns, std::memory_order_relaxed)) return true;
  }
  return false;
}

// Makes the context of a GPU's stream current for a scope.
class StreamContext {
 public:
  explicit StreamContext(CUstream stream) {
    CUcontext context = nullptr;
    if (Cuda().StreamGetCtx(stream, &context) == 0) current_.emplace(context);
  }

 private:
  std::optional<ScopedContext> current_;
};

double Median(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n == 0 ? 0.0 : (static_cast<double>(values[(n - 1) / 2]) + static_cast<double>(values[n / 2])) / 2;
}

}  // namespace

void EnableProfitabilityCheck(bool wanted, std::int64_t series_apart_ns, double shadow_share) {
  enabled.store(wanted);
  apart_ns.store(series_apart_ns);
  share.store(shadow_share);
}

// What is decided may differ between runs.
bool ProfitabilityCheckWanted() { return enabled.load(std::memory_order_relaxed) && !tensorflow::OpDeterminismRequired(); }

// One call while it is open. Calls that run are counted, whatever is measured beside them.
ProfitabilityCheck::Turn ProfitabilityCheck::Sample(CUstream stream) {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  Turn turn;
  if (lock.owns_lock()) {
    const std::int64_t call = calls_ + 1;
    if (!ruling_) {
      turn = Measure(stream);
    } else if (ruling_->from_call == kInTurns) {
      turn.form = call % 2 == 0 ? Form::kFallback : Form::kStitched;
    } else if (ruling_->from_call <= call) {
      Settle(*ruling_);
      turn.form = ruling_->form;
    }
  }
  if (!turn.Beside()) ++calls_;
  return turn;
}

ProfitabilityCheck::Turn ProfitabilityCheck::Measure(CUstream stream) {
  const std::int64_t call = calls_ + 1;
  if (busy_ || call <= kSettlingCalls) return {};
  if (!ProfitabilityCheckWanted()) {
    state_.store(State::kStitched, std::memory_order_release);
    return {};
  }
  if (pending_ && !Collect(stream)) return {};
  if (found_) {
    busy_ = true;
    Turn turn;
    turn.found = found_;
    return turn;
  }
  if (call >= kFirstLook && (call & (call - 1)) == 0 && std::exchange(looked_, call) != call) {
    busy_ = true;
    Turn turn;
    turn.look = true;
    return turn;
  }
  if (std::exchange(unsettled_, false)) return {};  // buffers and CUDA graphs find their addresses again
  Turn turn;
  turn.sampled = true;
  turn.shadow = fallback_ns_.size() < stitched_ns_.size();
  if (!turn.shadow && fallback_ns_.size() == series_ * kSeries) {
    const std::int64_t now = Now();
    if (now < next_series_ns_) return {};
    next_series_ns_ = now + apart_ns.load(std::memory_order_relaxed);
    ++series_;
    warm_ups_ = 0;
  }
  if (turn.shadow) {
    turn.reserved_ns = expected_ns_ > 0 ? expected_ns_ : stitched_ns_.back();
    if (!Reserve(turn.reserved_ns)) return {};
    turn.began_ns = Now();
  }
  turn.timed = !turn.shadow || warm_ups_ == kWarmUps;
  if (!turn.timed) ++warm_ups_;
  if (turn.timed && stream != nullptr && !MakeEvents(stream)) {
    state_.store(State::kStitched, std::memory_order_release);
    return {};
  }
  busy_ = true;
  return turn;
}

void ProfitabilityCheck::Start(CUstream stream, Turn* turn) {
  if (!turn->timed) return;
  if (stream != nullptr) {
    const StreamContext current(stream);
    turn->timed = Cuda().EventRecord(start_, stream) == 0;
  }
  turn->start_ns = Now();
}

bool ProfitabilityCheck::MakeEvents(CUstream stream) {
  const CudaDriver& cuda = Cuda();
  if (start_ == nullptr && (cuda.StreamGetCtx(stream, &context_) != 0 || cuda.EventCreate(&start_, 0) != 0)) {
    start_ = nullptr;
  } else if (stop_ == nullptr && cuda.EventCreate(&stop_, 0) != 0) {
    stop_ = nullptr;
  }
  return start_ != nullptr && stop_ != nullptr;
}

void ProfitabilityCheck::DestroyEvents() {
  if (start_ == nullptr) return;
  const ScopedContext current(context_);
  for (CUevent* event : {&start_, &stop_}) {
    if (*event != nullptr) Cuda().EventDestroy(*event);
    *event = nullptr;
  }
}

ProfitabilityCheck::~ProfitabilityCheck() { DestroyEvents(); }

void ProfitabilityCheck::End(CUstream stream, const Turn& turn, bool ok) {
  if (!turn.sampled) return;
  const std::int64_t now = Now(), host_ns = now - turn.start_ns;
  const std::lock_guard<std::mutex> lock(mutex_);
  busy_ = false;
  unsettled_ = turn.shadow;
  if (turn.shadow) {
    expected_ns_ = now - turn.began_ns;
    shadow_ns.fetch_add(expected_ns_ - turn.reserved_ns, std::memory_order_relaxed);
  }
  if (!turn.timed || !ok) return;
  if (stream != nullptr) {
    const StreamContext current(stream);
    if (Cuda().EventRecord(stop_, stream) != 0) return;
  }
  pending_ = turn;
  pending_->start_ns = host_ns;
}

// Whether the pending call's kernels are done; its time is then among the samples. A region costs what the busier of
// host and device spends on it.
bool ProfitabilityCheck::Collect(CUstream stream) {
  if (stream == nullptr) {
    found_ = Add(pending_->shadow, pending_->start_ns);
    pending_.reset();
    return true;
  }
  const StreamContext current(stream);
  const CudaDriver& cuda = Cuda();
  const CUresult done = cuda.EventQuery(stop_);
  if (done == kCudaNotReady) return false;
  float milliseconds = 0;
  if (done == 0 && cuda.EventElapsedTime(&milliseconds, start_, stop_) == 0) {
    const auto device_ns = static_cast<std::int64_t>(milliseconds * 1e6F);
    if (pending_->shadow && device_ns > expected_ns_) {
      shadow_ns.fetch_add(device_ns - expected_ns_, std::memory_order_relaxed);
      expected_ns_ = device_ns;
    }
    found_ = Add(pending_->shadow, std::max(pending_->start_ns, device_ns));
  }
  pending_.reset();
  return true;
}

// What follows from the times so far, if anything.
std::optional<ProfitabilityCheck::Outcome> ProfitabilityCheck::Add(bool shadow, std::int64_t ns) {
  (shadow ? fallback_ns_ : stitched_ns_).push_back(ns);
  const int pairs = static_cast<int>(fallback_ns_.size());
  if (!shadow) return std::nullopt;
  const double stitched = Median(stitched_ns_), fallback = Median(fallback_ns_);
  Outcome outcome{Form::kStitched, stitched / 1e3, fallback / 1e3, pairs, calls_ + 1};
  if (ClearlyFaster()) return outcome;
  if (pairs % kSeries != 0) return std::nullopt;
  if (stitched <= kSlower * fallback) return outcome;
  if (pairs < kPairsToGiveUp) return std::nullopt;
  int wins = 0;
  for (int i = 0; i < pairs; ++i) wins += fallback_ns_[i] < stitched_ns_[i];
  if (wins >= kWinsToGiveUp) outcome.form = Form::kFallback;
  return outcome;
}

// Whether the kernels won all of the first pairs, whichever of their runs are compared.
bool ProfitabilityCheck::ClearlyFaster() const {
  const std::size_t pairs = fallback_ns_.size();
  const std::int64_t stitched = *std::max_element(stitched_ns_.begin(), stitched_ns_.end());
  const std::int64_t fallback = *std::min_element(fallback_ns_.begin(), fallback_ns_.end());
  const bool on_device = start_ != nullptr;
  return (on_device && pairs == 1 && kByFar * stitched <= fallback) || (pairs == kClearPairs && stitched < fallback);
}

void ProfitabilityCheck::Decide(const Ruling& ruling) {
  const std::lock_guard<std::mutex> lock(mutex_);
  DestroyEvents();
  const bool later = ruling.form == Form::kFallback && (ruling.from_call == kInTurns || ruling.from_call > calls_ + 1);
  if (!later) return Settle(ruling);
  ruling_ = ruling;
}

void ProfitabilityCheck::Looked(const std::optional<Ruling>& known) {
  if (known) return Decide(*known);
  const std::lock_guard<std::mutex> lock(mutex_);
  busy_ = false;
}

void ProfitabilityCheck::Settle(const Ruling& ruling) {
  state_.store(ruling.form == Form::kFallback ? State::kFallback : State::kStitched, std::memory_order_release);
}

}  // namespace tf_stitch
