// Scratch memory that stays where it is from call to call. A CUDA graph has its address in each node: where an allocator
// gives another one, each node is given it, which takes the host about as long as launching the kernels one by one.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tf_stitch {

// Of one stream, for all who share it, as long as one of them has this: what they enqueue there runs in turns. Pieces are
// memory that goes with the object. Thread-safe.
template <typename Piece>
class KeptMemory {
 public:
  static std::shared_ptr<KeptMemory> Of(const void* stream) {
    static auto* const mutex = new std::mutex;
    static auto* const all = new std::map<const void*, std::weak_ptr<KeptMemory>>;
    const std::lock_guard<std::mutex> lock(*mutex);
    std::weak_ptr<KeptMemory>& known = (*all)[stream];
    std::shared_ptr<KeptMemory> memory = known.lock();
    if (memory == nullptr) known = memory = std::make_shared<KeptMemory>();
    return memory;
  }

  // Pieces of so many bytes, or more. The caller alone has them, until it has enqueued what uses them and returns them.
  // Null if another thread has them; or `allocate`, which gets bytes and a piece to set, says no; or, asked now and then,
  // `has_room` says of their bytes that they are too many to be kept: then nothing is.
  template <typename Allocate, typename HasRoom>
  const std::vector<Piece>* Take(const std::vector<std::int64_t>& bytes, Allocate allocate, HasRoom has_room) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (taken_) return nullptr;
    if (!Fits(bytes) || ++calls_ % kCallsBetween == 0) {
      if (!has_room(Sum(Larger(bytes)))) {
        Drop();
        return nullptr;
      }
      if (!Fits(bytes) && !Renew(Larger(bytes), allocate)) return nullptr;
    }
    taken_ = true;
    return &pieces_;
  }

  void Return() {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken_ = false;
  }

 private:
  static constexpr int kCallsBetween = 16;  // for which there was room

  bool Fits(const std::vector<std::int64_t>& bytes) const {
    if (bytes.size() > bytes_.size()) return false;
    return std::equal(bytes.begin(), bytes.end(), bytes_.begin(), [](auto wanted, auto there) { return wanted <= there; });
  }

  // Those of other executables stay large enough for them: who comes in turns finds the same memory.
  std::vector<std::int64_t> Larger(std::vector<std::int64_t> bytes) const {
    bytes.resize(std::max(bytes.size(), bytes_.size()));
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes[i] = std::max(bytes[i], bytes_[i]);
    return bytes;
  }

  static std::int64_t Sum(const std::vector<std::int64_t>& bytes) {
    std::int64_t sum = 0;
    for (const std::int64_t each : bytes) sum += each;
    return sum;
  }

  template <typename Allocate>
  bool Renew(std::vector<std::int64_t> bytes, Allocate allocate) {
    Drop();  // first: there need not be room for both
    for (const std::int64_t each : bytes) {
      if (!allocate(each, &pieces_.emplace_back())) {
        Drop();
        return false;
      }
    }
    bytes_ = std::move(bytes);
    return true;
  }

  void Drop() {
    pieces_.clear();
    bytes_.clear();
  }

  std::mutex mutex_;
  bool taken_ = false;
  std::int64_t calls_ = 0;
  std::vector<std::int64_t> bytes_;
  std::vector<Piece> pieces_;
};

}  // namespace tf_stitch
