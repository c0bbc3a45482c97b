// Work for the thread that waits for it, and for those of TensorFlow's pool that are free.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace tf_stitch {

// Whoever waits in a thread of a pool for work that the pool is to do may wait for itself. Here it does the work, and the
// pool's threads help where they come to it. So the threads are those that a session was given.
class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  using Work = std::function<void()>;
  using Runner = std::function<void(Work)>;

  // `pool`: null: nobody helps. It has to outlive the call of Work.
  explicit WorkQueue(const Runner* pool) : pool_(pool) {}

  // From any thread, until Close.
  void Add(Work work) {
    bool wanted = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      queue_.push_back(std::move(work));
      wanted = pool_ != nullptr && *pool_ && queue_.size() > 1;  // the thread that waits takes the first
    }
    changed_.notify_one();
    if (!wanted || Adding()) return;
    Adding() = true;  // a pool of no threads runs its work at once, which adds to ours
    (*pool_)([self = shared_from_this()] {
      if (!Adding()) self->TakeOne();
    });
    Adding() = false;
  }

  // Nothing is added any more. What has called this is the last of the work.
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  // Works until Close.
  void DoAll() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Run(&lock);
    }
  }

 private:
  static bool& Adding() {
    thread_local bool adding = false;
    return adding;
  }

  void TakeOne() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!queue_.empty()) Run(&lock);
  }

  void Run(std::unique_lock<std::mutex>* lock) {
    Work work = std::move(queue_.front());
    queue_.pop_front();
    lock->unlock();
    work();
    lock->lock();
  }

  const Runner* const pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  bool closed_ = false;
};

}  // namespace tf_stitch
