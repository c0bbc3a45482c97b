// Never slower (N6): a region's kernels and its own nodes are timed on early calls, then the faster of the two runs.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/cuda_driver.h"

namespace tf_stitch {

enum class Form { kStitched, kOriginal };

// Of every region from now on; what is decided stays so. Series of timed calls start that far apart, at least.
void EnableGuard(bool enabled, std::int64_t series_apart_ns);

// The two forms of a region for one shape signature. The calls that decide alternate between the forms; at most one is
// timed at a time, so that concurrent calls are left alone. `stream` is null on the CPU.
class Guard {
 public:
  Guard() = default;
  ~Guard();  // no call is between Begin and End
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  struct Outcome {
    Form form;
    double stitched_us;  // medians
    double original_us;
  };

  // One call of the op.
  struct Turn {
    Form form = Form::kStitched;
    bool sampled = false;  // the call helps to decide: End has to be called
    bool timed = false;
    bool last = false;  // the guard has just decided: nothing is timed any more
    std::int64_t start_ns = 0;
  };

  // The form of this call. Once decided it costs one load.
  Turn Begin(CUstream stream) {
    const State state = state_.load(std::memory_order_acquire);
    return state == State::kOpen ? Sample(stream) : Turn{FormOf(state)};
  }

  // The call is over; on a GPU its work is in the stream. Times of failed calls do not count.
  void End(CUstream stream, const Turn& turn, bool ok);

  // No choice: the region keeps to its kernels.
  void KeepStitched() { Decide(State::kStitched); }

  // What was measured, if the guard has decided by measuring.
  std::optional<Outcome> outcome() const;

 private:
  enum class State { kOpen, kStitched, kOriginal };

  Turn Sample(CUstream stream);
  void Start(CUstream stream, Turn* turn);
  bool MakeEvents(CUstream stream);
  void DestroyEvents();
  bool Collect(CUstream stream);
  void Add(Form form, std::int64_t ns);
  void Decide(State state) { state_.store(state, std::memory_order_release); }
  static Form FormOf(State state) { return state == State::kOriginal ? Form::kOriginal : Form::kStitched; }

  std::atomic<State> state_{State::kOpen};
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  int calls_ = 0;
  int warm_ups_ = 0;
  bool busy_ = false;              // a sampled call runs
  bool unsettled_ = false;         // the last call took the original form
  std::optional<Turn> pending_;    // a timed call whose kernels may still run; start_ns is what the host took
  CUcontext context_ = nullptr;    // of the events
  CUevent start_ = nullptr, stop_ = nullptr;
  std::size_t series_ = 0;            // that have begun
  std::int64_t next_series_ns_ = 0;
  std::vector<std::int64_t> stitched_ns_, original_ns_;
};

}  // namespace tf_stitch
