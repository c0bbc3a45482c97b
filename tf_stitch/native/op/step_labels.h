// Names of steps for TensorFlow's profiler: on the CPU's timeline, and of what a GPU runs meanwhile.
#pragma once
#include <optional>
#include <string>

#include "tsl/profiler/lib/scoped_annotation.h"
#include "tsl/profiler/lib/traceme.h"

namespace tf_stitch {

// Whether a profiler wants to know names: two loads.
inline bool Profiled() { return tsl::profiler::TraceMe::Active() || tsl::profiler::ScopedAnnotation::IsEnabled(); }

// Names what the thread does in a scope, and kernels that it launches there.
class ScopedLabel {
 public:
  explicit ScopedLabel(const std::string& label) {
    if (label.empty()) return;
    trace_.emplace(absl::string_view(label));
    annotation_.emplace(label);
  }

 private:
  std::optional<tsl::profiler::TraceMe> trace_;
  std::optional<tsl::profiler::ScopedAnnotation> annotation_;
};

}  // namespace tf_stitch
