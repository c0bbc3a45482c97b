// Where the members of a group wait for each other without a thread: the last one that comes takes what all have brought.
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

// What one member has to do with a rendezvous. Written by LocalRendezvous alone.
struct Ticket {
  bool here = false;
  bool left = false;
};

template <typename Key, typename Part>
class LocalRendezvous {
 public:
  // What all members have brought, by rank, if this was the last of `size`; nothing while others are missing. `error`
  // says what is wrong with a member, which then stays outside.
  std::vector<Part> Join(const Key& key, int rank, int size, const std::shared_ptr<Ticket>& ticket, Part part,
                         std::string* error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    *error = WhyNot(key, rank, size, *ticket);
    if (!error->empty()) return {};
    Seats& seats = waiting_[key];
    seats.resize(static_cast<std::size_t>(size));
    seats[rank].emplace(ticket, std::move(part));
    ticket->here = true;
    for (const std::optional<Seat>& seat : seats) {
      if (!seat.has_value()) return {};
    }
    return Take(waiting_.find(key));
  }

  // Ends what a ticket waits for, unless that is over: what has been brought. Who has not come yet is not let in.
  std::vector<Part> Leave(const Key& key, const std::shared_ptr<Ticket>& ticket) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ticket->left = true;
    return ticket->here ? Take(waiting_.find(key)) : std::vector<Part>();
  }

 private:
  using Seat = std::pair<std::shared_ptr<Ticket>, Part>;
  using Seats = std::vector<std::optional<Seat>>;
  using Map = std::map<Key, Seats>;

  std::string WhyNot(const Key& key, int rank, int size, const Ticket& ticket) const {
    if (ticket.left) return "it was cancelled";
    const std::string which = "rank " + std::to_string(rank) + " of " + std::to_string(size);
    if (rank < 0 || rank >= size) return which;
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) return "";
    if (found->second.size() != static_cast<std::size_t>(size)) {
      return which + " where others have " + std::to_string(found->second.size());
    }
    return found->second[rank].has_value() ? which + " comes twice" : "";
  }

  std::vector<Part> Take(typename Map::iterator found) {
    std::vector<Part> taken;
    for (std::optional<Seat>& seat : found->second) {
      if (!seat.has_value()) continue;
      seat->first->here = false;
      taken.push_back(std::move(seat->second));
    }
    waiting_.erase(found);
    return taken;
  }

  std::mutex mutex_;
  Map waiting_;
};

}  // namespace tf_stitch
