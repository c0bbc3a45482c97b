#include "op/guard.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "tensorflow/core/util/determinism.h"

namespace tf_stitch {
namespace {

constexpr int kSettlingCalls = 20;  // before the first sample: short-lived signatures are not sampled
constexpr int kWarmUps = 2;         // of the original form before a series: it is instantiated, and touches its memory
constexpr int kSeries = 5;          // pairs; one series is enough to keep the stitched form
// To give it up takes more, for nobody looks again: so many pairs, of which the original form has to win so many. By
// chance it does so one time in a hundred.
constexpr int kPairsToGiveUp = 6 * kSeries, kWinsToGiveUp = 22;
constexpr double kSlower = 1.03;    // what counts as slower

std::atomic<bool> enabled{false};
// From the start of one series to the next, at least: what disturbs one form more than the other (work on a core that it
// shares its loops with) may last that long, and all pairs of a small region would meet it.
std::atomic<std::int64_t> apart_ns{0};

// Alternating changes the last bits of results from call to call, and what is decided may differ between runs.
bool Wanted() { return enabled.load(std::memory_order_relaxed) && !tensorflow::OpDeterminismRequired(); }

std::int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
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

void EnableGuard(bool wanted, std::int64_t series_apart_ns) {
  enabled.store(wanted);
  apart_ns.store(series_apart_ns);
}

Guard::Turn Guard::Sample(CUstream stream) {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || busy_) return {};
  if (++calls_ <= kSettlingCalls) return {};
  if (!Wanted()) {
    Decide(State::kStitched);
    return {};
  }
  if (pending_ && !Collect(stream)) return {};
  if (state_.load() != State::kOpen) {
    Turn settled{FormOf(state_.load())};
    settled.last = true;
    return settled;
  }
  if (std::exchange(unsettled_, false)) return {};  // buffers and CUDA graphs find their addresses again
  if (original_ns_.size() == series_ * kSeries) {
    const std::int64_t now = Now();
    if (now < next_series_ns_) return {};
    next_series_ns_ = now + apart_ns.load(std::memory_order_relaxed);
    ++series_;
    warm_ups_ = 0;
  }
  Turn turn{Form::kOriginal, /*sampled=*/true};
  if (warm_ups_ < kWarmUps) {
    ++warm_ups_;
    busy_ = true;
    return turn;
  }
  turn.timed = true;
  if (stitched_ns_.size() <= original_ns_.size()) turn.form = Form::kStitched;
  Start(stream, &turn);
  if (!turn.timed) Decide(State::kStitched);  // no events to be had
  busy_ = turn.timed;
  return turn.timed ? turn : Turn{};
}

void Guard::Start(CUstream stream, Turn* turn) {
  if (stream != nullptr) {
    const StreamContext current(stream);
    turn->timed = MakeEvents(stream) && Cuda().EventRecord(start_, stream) == 0;
  }
  turn->start_ns = Now();
}

bool Guard::MakeEvents(CUstream stream) {
  const CudaDriver& cuda = Cuda();
  if (start_ == nullptr && (cuda.StreamGetCtx(stream, &context_) != 0 || cuda.EventCreate(&start_, 0) != 0)) {
    start_ = nullptr;
  } else if (stop_ == nullptr && cuda.EventCreate(&stop_, 0) != 0) {
    stop_ = nullptr;
  }
  return start_ != nullptr && stop_ != nullptr;
}

void Guard::DestroyEvents() {
  if (start_ == nullptr) return;
  const ScopedContext current(context_);
  for (CUevent* event : {&start_, &stop_}) {
    if (*event != nullptr) Cuda().EventDestroy(*event);
    *event = nullptr;
  }
}

Guard::~Guard() { DestroyEvents(); }

void Guard::End(CUstream stream, const Turn& turn, bool ok) {
  if (!turn.sampled) return;
  const std::int64_t host_ns = Now() - turn.start_ns;
  const std::lock_guard<std::mutex> lock(mutex_);
  busy_ = false;
  unsettled_ = turn.form == Form::kOriginal;
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
bool Guard::Collect(CUstream stream) {
  if (stream == nullptr) {
    Add(pending_->form, pending_->start_ns);
    pending_.reset();
    return true;
  }
  const StreamContext current(stream);
  const CudaDriver& cuda = Cuda();
  const CUresult done = cuda.EventQuery(stop_);
  if (done == kCudaNotReady) return false;
  float milliseconds = 0;
  if (done == 0 && cuda.EventElapsedTime(&milliseconds, start_, stop_) == 0) {
    Add(pending_->form, std::max(pending_->start_ns, static_cast<std::int64_t>(milliseconds * 1e6F)));
  }
  pending_.reset();
  if (state_.load() != State::kOpen) DestroyEvents();
  return true;
}

void Guard::Add(Form form, std::int64_t ns) {
  (form == Form::kStitched ? stitched_ns_ : original_ns_).push_back(ns);
  const int pairs = static_cast<int>(original_ns_.size());
  if (form != Form::kOriginal || pairs % kSeries != 0) return;
  const bool slower = Median(stitched_ns_) > kSlower * Median(original_ns_);
  if (!slower) return Decide(State::kStitched);
  if (pairs < kPairsToGiveUp) return;
  int wins = 0;
  for (int i = 0; i < pairs; ++i) wins += original_ns_[i] < stitched_ns_[i];
  Decide(wins >= kWinsToGiveUp ? State::kOriginal : State::kStitched);
}

std::optional<Guard::Outcome> Guard::outcome() const {
  const State state = state_.load(std::memory_order_acquire);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (state == State::kOpen || original_ns_.empty()) return std::nullopt;
  return Outcome{FormOf(state), Median(stitched_ns_) / 1e3,
                 Median(original_ns_) / 1e3};
}

}  // namespace tf_stitch
