// A function pointer into Python that can be taken away while other threads use it: at interpreter exit no thread may
// enter Python any more. Callers hold no C++ lock while inside, for Python's lock is taken there.
#pragma once
#include <atomic>
#include <chrono>
#include <thread>

namespace tf_stitch {

template <typename Callbacks>
class CallbackGate {
 public:
  // The callbacks for a scope, or null once they are cleared.
  class Entry {
   public:
    explicit Entry(CallbackGate* gate) : gate_(gate) {
      gate_->inside_.fetch_add(1);
      callbacks_ = gate_->callbacks_.load();
    }
    ~Entry() { gate_->inside_.fetch_sub(1); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    const Callbacks* get() const { return callbacks_; }

   private:
    CallbackGate* gate_;
    const Callbacks* callbacks_;
  };

  void Set(const Callbacks& callbacks) { callbacks_.store(new Callbacks(callbacks)); }  // leaked: readers may linger

  // Returns when nobody is inside, or after `patience`: a thread that waits for this one must not hang the exit.
  void Clear(std::chrono::milliseconds patience) {
    callbacks_.store(nullptr);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (inside_.load() != 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  std::atomic<const Callbacks*> callbacks_{nullptr};
  std::atomic<int> inside_{0};
};

}  // namespace tf_stitch
