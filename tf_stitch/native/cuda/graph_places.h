// Which executables have CUDA graphs: so many of a region, and so many of a process. One that runs again and again takes
// the place of one of its region that does not run any more.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tf_stitch {

// An executable that may have a graph.
class GraphClaim {
 public:
  virtual ~GraphClaim() = default;
  // Destroys the graph, if there is one: another executable has its place. Called with no lock but that of the places.
  virtual void GiveUp() = 0;

  bool held() const { return held_; }

 private:
  friend class GraphPlaces;
  std::atomic<bool> held_{false};
  std::atomic<std::int64_t> used_{0};  // the region's run that it had a place for last
  std::int64_t since_ = 0;             // the region's run that it began to ask at
  int asked_ = 0;                      // runs since then
};

// The places of one region on one device. Thread-safe.
class GraphPlaces {
 public:
  static constexpr std::size_t kMost = 8;
  // Runs of an executable while the one not used for longest does not run at all. Making a graph takes as long as some
  // tens of launches: where executables come in turns, each of them as often, those that have graphs keep them.
  static constexpr int kPatience = 16;

  // Counts a run of an executable that wants a graph, and says whether it has a place.
  bool Ask(GraphClaim* claim);
  void Leave(GraphClaim* claim);

  // Places of all regions together.
  static void SetLimit(int limit);

 private:
  bool Place(GraphClaim* claim, std::int64_t now);  // mutex_ is held

  std::atomic<std::int64_t> runs_{0};
  std::mutex mutex_;
  std::vector<GraphClaim*> holders_;
};

}  // namespace tf_stitch
