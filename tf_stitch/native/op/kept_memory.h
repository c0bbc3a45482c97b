// Scratch memory that stays where it is from call to call. A CUDA graph has its address in each node: where an allocator
// gives another one, each node is given it, which takes the host about as long as launching the kernels one by one.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace tf_stitch {

// Of one stream, for all who share it, as long as one of them has this: what they enqueue there runs in turns. A piece is
// memory that goes with the object. Thread-safe.
template <typename Piece>
class KeptMemory {
 public:
  static std::shared_ptr<KeptMemory> Of(const void* stream) {
    const std::lock_guard<std::mutex> lock(Registry().mutex);
    std::weak_ptr<KeptMemory>& known = Registry().all[stream];
    std::shared_ptr<KeptMemory> memory = known.lock();
    if (memory == nullptr) known = memory = std::make_shared<KeptMemory>();
    return memory;
  }

  // As Of; null where nobody keeps memory.
  static std::shared_ptr<KeptMemory> IfAny(const void* stream) {
    const std::lock_guard<std::mutex> lock(Registry().mutex);
    const auto known = Registry().all.find(stream);
    return known == Registry().all.end() ? nullptr : known->second.lock();
  }

  // So many bytes, or more: those who come in turns find the same piece, as large as the largest wanted. The caller alone
  // has it, until it has enqueued what uses it and returns it. Null if another thread has it; or `allocate`, which gets
  // bytes and a piece to set, says no; or, asked now and then, `has_room` says that it is too much to be kept: then
  // nothing is.
  template <typename Allocate, typename HasRoom>
  const Piece* Take(std::int64_t bytes, Allocate allocate, HasRoom has_room) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (taken_) return nullptr;
    const bool fits = piece_.has_value() && bytes <= bytes_;
    if (!fits || ++calls_ % kCallsBetween == 0) {
      if (!has_room(fits ? bytes_ : bytes)) {
        piece_.reset();
        return nullptr;
      }
      if (!fits && !Renew(bytes, allocate)) return nullptr;
    }
    taken_ = true;
    return &*piece_;
  }

  // What others keep, for a caller that keeps nothing: else its own memory would lie beside what nobody uses. A piece that
  // is too small goes, so that there is room for the caller's; then, or if another thread has it, null.
  const Piece* Borrow(std::int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (taken_ || !piece_.has_value()) return nullptr;
    if (bytes > bytes_) {
      piece_.reset();
      return nullptr;
    }
    taken_ = true;
    return &*piece_;
  }

  // Frees what is kept, unless somebody has it: others need memory that nobody uses between calls.
  void Drop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!taken_) piece_.reset();
  }

  void Return() {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken_ = false;
  }

 private:
  static constexpr int kCallsBetween = 16;  // for which there was room

  struct ByStream {
    std::mutex mutex;
    std::map<const void*, std::weak_ptr<KeptMemory>> all;
  };

  static ByStream& Registry() {
    static auto* const registry = new ByStream;
    return *registry;
  }

  template <typename Allocate>
  bool Renew(std::int64_t bytes, Allocate allocate) {
    piece_.emplace();  // the one before goes first: there need not be room for both
    if (allocate(bytes, &*piece_)) {
      bytes_ = bytes;
      return true;
    }
    piece_.reset();
    return false;
  }

  std::mutex mutex_;
  bool taken_ = false;
  std::int64_t calls_ = 0;
  std::int64_t bytes_ = 0;  // of the piece
  std::optional<Piece> piece_;
};

}  // namespace tf_stitch
