#include "cuda/graph_places.h"

#include <algorithm>

namespace tf_stitch {
namespace {

std::atomic<int> limit{64};
std::atomic<int> taken{0};

bool TakeOne() {
  if (taken.fetch_add(1) < limit) return true;
  taken.fetch_sub(1);
  return false;
}

}  // namespace

void GraphPlaces::SetLimit(int most) { limit = most; }

bool GraphPlaces::Ask(GraphClaim* claim) {
  const std::int64_t now = runs_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (!claim->held_) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!claim->held_ && !Place(claim, now)) return false;
  }
  claim->used_ = now;
  return true;
}

bool GraphPlaces::Place(GraphClaim* claim, std::int64_t now) {
  if (holders_.size() < kMost && TakeOne()) {
    holders_.push_back(claim);
  } else {
    const auto oldest = std::min_element(holders_.begin(), holders_.end(), [](const auto* a, const auto* b) {
      return a->used_ < b->used_;
    });
    if (oldest == holders_.end()) return false;
    if ((*oldest)->used_ >= claim->since_) {
      claim->since_ = now;
      claim->asked_ = 0;
    }
    if (++claim->asked_ < kPatience) return false;
    (*oldest)->held_ = false;
    (*oldest)->GiveUp();
    *oldest = claim;
  }
  claim->held_ = true;
  claim->asked_ = 0;
  return true;
}

void GraphPlaces::Leave(GraphClaim* claim) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = std::find(holders_.begin(), holders_.end(), claim);
  if (it == holders_.end()) return;
  holders_.erase(it);
  claim->held_ = false;
  taken.fetch_sub(1);
}

}  // namespace tf_stitch
