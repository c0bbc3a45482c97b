// Ends loops that nobody wants any more: Ctrl-C was pressed, and the main thread waits for them in C++.
#pragma once
#include <atomic>

#include "absl/status/status.h"

namespace tf_stitch {

// Set from Python (tf_stitch/interruption.py), until the main thread is back there.
inline std::atomic<bool>& LoopsInterrupted() {
  static std::atomic<bool> interrupted{false};
  return interrupted;
}

// Asked in each iteration.
inline absl::Status GoesOn() {
  if (!LoopsInterrupted().load(std::memory_order_relaxed)) return absl::OkStatus();
  return absl::CancelledError("a loop was interrupted by Ctrl-C");
}

}  // namespace tf_stitch
