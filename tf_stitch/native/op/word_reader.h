// Reads what Python sends as words, and refuses what makes no sense.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace tf_stitch {

inline void Require(bool condition, const std::string& message) {
  if (!condition) throw std::invalid_argument(message);
}

class WordReader {
 public:
  explicit WordReader(const std::vector<std::int64_t>& words) : words_(words) {}

  std::int64_t Next(const char* what) {
    Require(position_ < words_.size(), std::string("ends before ") + what);
    return words_[position_++];
  }

  std::int64_t Ranged(const char* what, std::int64_t low, std::int64_t high) {
    const std::int64_t value = Next(what);
    Require(low <= value && value <= high, std::string(what) + " is out of range: " + std::to_string(value));
    return value;
  }

  // A count of things that take at least one word each, so it bounds what we allocate.
  std::int64_t Count(const char* what) {
    return Ranged(what, 0, static_cast<std::int64_t>(words_.size() - position_));
  }

  bool AtEnd() const { return position_ == words_.size(); }

 protected:
  // Of the word that comes next.
  std::size_t position() const { return position_; }

 private:
  const std::vector<std::int64_t>& words_;
  std::size_t position_ = 0;
};

}  // namespace tf_stitch
