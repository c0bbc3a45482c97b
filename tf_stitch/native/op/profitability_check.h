// Never slower (N6), the profitability check: a region's kernels and its fallback subgraph are timed in early calls, then
// the faster of the two runs. Until then callers get what the kernels compute.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cuda/cuda_driver.h"

namespace tf_stitch {

enum class Form { kStitched, kFallback };

// The form that runs, from a region's call of this number on (the first is 1); kernels run before. Another run of the
// program computes the same, bit for bit, if its calls change over where this one's did.
struct Ruling {
  Form form = Form::kStitched;
  std::int64_t from_call = 0;  // kInTurns: in every other call, for tests
};

constexpr std::int64_t kInTurns = -1;

// Of every region from now on; what is decided stays so. Series of timed calls start that far apart, at least, and runs in
// the shadow take at most `shadow_share` of the time since the first of them was wanted, but for what the first run of a
// fallback subgraph takes longer than the kernels.
void EnableProfitabilityCheck(bool enabled, std::int64_t series_apart_ns, double shadow_share);

// Whether regions time their two forms, or may take the form that an earlier check found faster.
bool ProfitabilityCheckWanted();

// The two forms of a region for one shape signature. In every other call that helps to decide the fallback subgraph runs in
// the shadow: before the kernels, with its results dropped. At most one call is timed at a time, so that concurrent calls
// are left alone. `stream` is null on the CPU.
class ProfitabilityCheck {
 public:
  ProfitabilityCheck() = default;
  ~ProfitabilityCheck();  // no call is between Begin and End
  ProfitabilityCheck(const ProfitabilityCheck&) = delete;
  ProfitabilityCheck& operator=(const ProfitabilityCheck&) = delete;

  struct Outcome {
    Form form;
    double stitched_us;  // medians
    double fallback_us;
    std::int32_t pairs;  // that were timed
    std::int64_t call;  // the one that comes next
  };

  // One call of the op.
  struct Turn {
    Form form = Form::kStitched;
    bool sampled = false;  // the call helps to decide: End has to be called
    bool shadow = false;   // what helps is a run of the fallback subgraph, before the kernels run
    bool timed = false;
    std::int64_t start_ns = 0;
    std::int64_t began_ns = 0, reserved_ns = 0;  // of a run in the shadow: since when it costs, and what was expected
    std::optional<Outcome> found;  // enough was measured: Decide has to be called
    bool look = false;      // equal regions may have been measured: Looked has to be called

    // Whether something comes before the region's call itself, which has to begin once more.
    bool Beside() const { return shadow || found || look; }
  };

  // What this call does. Once decided it costs one load.
  Turn Begin(CUstream stream) {
    const State state = state_.load(std::memory_order_acquire);
    if (state == State::kStitched) return {};
    return state == State::kFallback ? Turn{Form::kFallback} : Sample(stream);
  }

  // What is timed begins now: for a shadow run whatever it needs is at hand.
  void Start(CUstream stream, Turn* turn);

  // What was timed is over; on a GPU its work is in the stream. Times of failed calls do not count.
  void End(CUstream stream, const Turn& turn, bool ok);

  // Nothing more is measured.
  void Decide(const Ruling& ruling);

  // As Decide, of what was found, if anything.
  void Looked(const std::optional<Ruling>& known);
  bool stitched() const { return state_.load(std::memory_order_acquire) == State::kStitched; }
  bool decided() const { return state_.load(std::memory_order_acquire) != State::kOpen; }

 private:
  enum class State { kOpen, kStitched, kFallback };

  Turn Sample(CUstream stream);
  Turn Measure(CUstream stream);
  void Settle(const Ruling& ruling);
  bool MakeEvents(CUstream stream);
  void DestroyEvents();
  bool Collect(CUstream stream);
  std::optional<Outcome> Add(bool shadow, std::int64_t ns);
  bool ClearlyFaster() const;

  std::atomic<State> state_{State::kOpen};
  std::mutex mutex_;
  std::atomic<std::int64_t> calls_{0};  // that have run, or are about to, while open
  // Guarded by mutex_:
  std::optional<Ruling> ruling_;   // that does not hold yet, or in turns
  std::int64_t looked_ = 0;        // the last call before which Looked was called
  int warm_ups_ = 0;
  bool busy_ = false;              // a sampled call runs, or what it found is about to be decided
  bool unsettled_ = false;         // the last run was one of the fallback subgraph
  std::optional<Turn> pending_;    // a timed call whose kernels may still run; start_ns is what the host took
  std::optional<Outcome> found_;
  CUcontext context_ = nullptr;    // of the events
  CUevent start_ = nullptr, stop_ = nullptr;
  std::size_t series_ = 0;            // that have begun
  std::int64_t next_series_ns_ = 0;
  std::int64_t expected_ns_ = 0;      // that a run in the shadow takes, as the last one did
  std::vector<std::int64_t> stitched_ns_, fallback_ns_;
};

}  // namespace tf_stitch
