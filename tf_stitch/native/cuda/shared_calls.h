// Device calls that executables share.
#pragma once
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "op/library_call.h"
#include "op/recently_used.h"

namespace tf_stitch {

// By what they depend on. Executables hold theirs: one that is dropped here is settled anew by the next executable that
// wants it. Thread-safe.
template <typename Key>
class SharedCalls {
 public:
  explicit SharedCalls(std::size_t most) : calls_(most) {}

  // "" or why there is none. `make` gives a new one, whose Prepare() gives "" or an error.
  template <typename Make>
  std::string Find(const Key& key, const Make& make, std::shared_ptr<DeviceCall>* call) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (const std::shared_ptr<DeviceCall>* known = calls_.Find(key)) {
      *call = *known;
      return "";
    }
    auto made = make();
    const std::string error = made->Prepare();
    if (!error.empty()) return error;
    calls_.Keep(key, made);
    *call = std::move(made);
    return "";
  }

 private:
  std::mutex mutex_;
  RecentlyUsed<Key, std::shared_ptr<DeviceCall>> calls_;
};

}  // namespace tf_stitch
