// Where parts of one thing wait for each other without a thread: the last that comes takes all.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tf_stitch {

// What one part has to do with its meeting. Read and written by Meetings alone.
struct Ticket {
  bool here = false;
  bool left = false;
};

template <typename Key, typename Part>
class Meetings {
 public:
  // All parts, by number, if this was the last of `size`; none while others are missing. `error` says what is wrong
  // with a part, which then stays outside.
  std::vector<Part> Join(const Key& key, int number, int size, const std::shared_ptr<Ticket>& ticket, Part part,
                         std::string* error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    *error = WhyNot(key, number, size, *ticket);
    if (!error->empty()) return {};
    Meeting& meeting = meetings_[key];
    meeting.resize(static_cast<std::size_t>(size));
    meeting[number].emplace(ticket, std::move(part));
    ticket->here = true;
    for (const std::optional<Seat>& seat : meeting) {
      if (!seat.has_value()) return {};
    }
    return Take(meetings_.find(key));
  }

  // Ends the meeting of a ticket, unless it is over: the parts that have come. Whoever has not come yet is not let in.
  std::vector<Part> Leave(const Key& key, const std::shared_ptr<Ticket>& ticket) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ticket->left = true;
    return ticket->here ? Take(meetings_.find(key)) : std::vector<Part>();
  }

 private:
  using Seat = std::pair<std::shared_ptr<Ticket>, Part>;
  using Meeting = std::vector<std::optional<Seat>>;
  using Map = std::map<Key, Meeting>;

  std::string WhyNot(const Key& key, int number, int size, const Ticket& ticket) const {
    if (ticket.left) return "it was cancelled";
    const std::string which = "part " + std::to_string(number) + " of " + std::to_string(size);
    if (number < 0 || number >= size) return which;
    const auto found = meetings_.find(key);
    if (found == meetings_.end()) return "";
    if (found->second.size() != static_cast<std::size_t>(size)) {
      return which + " where others have " + std::to_string(found->second.size());
    }
    return found->second[number].has_value() ? which + " comes twice" : "";
  }

  std::vector<Part> Take(typename Map::iterator found) {
    std::vector<Part> taken;
    for (std::optional<Seat>& seat : found->second) {
      if (!seat.has_value()) continue;
      seat->first->here = false;
      taken.push_back(std::move(seat->second));
    }
    meetings_.erase(found);
    return taken;
  }

  std::mutex mutex_;
  Map meetings_;
};

}  // namespace tf_stitch
