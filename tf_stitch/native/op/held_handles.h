// Handles of variables that functions hold, by number: their nodes find them here, where arguments would bring them.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/platform/mutex.h"

namespace tf_stitch {

class HeldHandles {
 public:
  static HeldHandles& Global() {
    static auto* const handles = new HeldHandles;
    return *handles;
  }

  void Add(std::int64_t number, const tensorflow::ResourceHandle& handle) {
    const tensorflow::mutex_lock lock(mutex_);
    handles_[number] = handle;
  }

  absl::StatusOr<tensorflow::ResourceHandle> Find(std::int64_t number) {
    const tensorflow::tf_shared_lock lock(mutex_);
    const auto found = handles_.find(number);
    if (found != handles_.end()) return found->second;
    return absl::FailedPreconditionError(absl::StrCat("tf_stitch: no function holds a variable of number ", number));
  }

  // Frees the variables that nobody else holds.
  void Remove(std::int64_t first, std::int64_t count) {
    std::vector<tensorflow::ResourceHandle> removed;  // goes after the lock
    const tensorflow::mutex_lock lock(mutex_);
    for (std::int64_t number = first; number < first + count; ++number) {
      const auto found = handles_.find(number);
      if (found == handles_.end()) continue;
      removed.push_back(std::move(found->second));
      handles_.erase(found);
    }
  }

 private:
  tensorflow::mutex mutex_;
  std::unordered_map<std::int64_t, tensorflow::ResourceHandle> handles_;
};

}  // namespace tf_stitch
