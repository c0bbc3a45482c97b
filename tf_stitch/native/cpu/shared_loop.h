// A loop that the calling thread shares with TensorFlow's pool.
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/functional/function_ref.h"
#include "cpu/workers.h"

namespace tf_stitch {

// ThreadPool::ParallelFor hands out parts that are fixed beforehand and waits for each: a thread that wakes up late, or
// that another program keeps from its core, holds up everything. Here the caller works until nothing is left, and waits
// only for what others have begun. Who comes late finds nothing.
class SharedLoop : public std::enable_shared_from_this<SharedLoop> {
 public:
  using Body = absl::FunctionRef<void(std::int64_t begin, std::int64_t end)>;

  // Calls `body` for disjoint ranges that make up [0, total); returns when all are done. A unit takes `cost` cycles.
  static void Run(tsl::thread::ThreadPool* pool, std::int64_t total, std::int64_t cost, Body body) {
    cost = std::max<std::int64_t>(cost, 1);
    const std::int64_t worthwhile = std::min<std::int64_t>(total, total * cost / kThreadCycles);
    const std::int64_t threads = std::min<std::int64_t>(NumThreads(*pool), worthwhile);
    if (threads <= 1) return body(0, total);
    const std::int64_t least = std::max<std::int64_t>(kLeastCycles / cost, 1);
    const auto loop = std::make_shared<SharedLoop>(pool, total, least, threads, body);
    loop->Help(threads - 1);
    loop->Wait();
  }

  SharedLoop(tsl::thread::ThreadPool* pool, std::int64_t total, std::int64_t least, std::int64_t threads, Body body)
      : pool_(pool), total_(total), least_(least), threads_(threads), body_(body) {}

 private:
  // Of a thread's share, at least, as in Eigen: waking it costs the caller 2 us, and 20 us of a core that may be busy,
  // since threads of the pool look for work so long before they sleep. INLINE_CYCLES (kernel_ir/cost.py) is that of two.
  static constexpr std::int64_t kThreadCycles = 100'000;
  static constexpr std::int64_t kLeastCycles = 20'000;  // of a range: a few microseconds
  static constexpr int kYields = 40;                    // about as long

  // Works, after it has woken `helpers` threads, which wake others in turn.
  void Help(std::int64_t helpers) {
    while (helpers > 0) {
      const std::int64_t theirs = (helpers - 1) / 2;
      Schedule(pool_, [self = shared_from_this(), theirs] { self->Help(theirs); });
      helpers -= theirs + 1;
    }
    std::int64_t begin, end;
    while (Take(&begin, &end)) {
      body_(begin, end);
      Finish(end - begin);
    }
  }

  // Ranges become smaller towards the end, so that all threads end at about the same time.
  bool Take(std::int64_t* begin, std::int64_t* end) {
    *begin = next_.load(std::memory_order_relaxed);
    do {
      const std::int64_t left = total_ - *begin;
      if (left <= 0) return false;
      *end = *begin + std::min(std::max(left / (2 * threads_), least_), left);
    } while (!next_.compare_exchange_weak(*begin, *end, std::memory_order_relaxed));
    return true;
  }

  void Finish(std::int64_t count) {
    if (done_.fetch_add(count, std::memory_order_acq_rel) + count != total_) return;
    const std::lock_guard<std::mutex> lock(mutex_);  // the caller either sees it done or waits already
    finished_.notify_one();
  }

  bool Done() const { return done_.load(std::memory_order_acquire) == total_; }

  void Wait() {
    for (int i = 0; i < kYields; ++i) {
      if (Done()) return;
      std::this_thread::yield();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    finished_.wait(lock, [this] { return Done(); });
  }

  tsl::thread::ThreadPool* const pool_;
  const std::int64_t total_, least_, threads_;
  const Body body_;  // lives as long as the caller, who does not return while a range is taken and not done
  std::atomic<std::int64_t> next_{0}, done_{0};
  std::mutex mutex_;
  std::condition_variable finished_;
};

}  // namespace tf_stitch
