// A map that keeps what was asked for last.
#pragma once
#include <cstddef>
#include <list>
#include <map>
#include <utility>

namespace tf_stitch {

// At most `most` values; the one not found for longest is dropped. Not thread-safe.
template <typename Key, typename Value>
class RecentlyUsed {
 public:
  explicit RecentlyUsed(std::size_t most) : most_(most) {}

  // Null if it is not there; else valid until the next Keep.
  const Value* Find(const Key& key) {
    const auto known = places_.find(key);
    if (known == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, known->second);
    return &entries_.front().second;
  }

  // A key that is not there.
  void Keep(const Key& key, Value value) {
    entries_.emplace_front(key, std::move(value));
    places_[key] = entries_.begin();
    if (entries_.size() <= most_) return;
    places_.erase(entries_.back().first);
    entries_.pop_back();
  }

 private:
  using Entries = std::list<std::pair<Key, Value>>;  // the latest used first

  const std::size_t most_;
  Entries entries_;
  std::map<Key, typename Entries::iterator> places_;
};

}  // namespace tf_stitch
