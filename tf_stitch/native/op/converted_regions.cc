#include "op/converted_regions.h"

#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "op/sha256.h"

namespace tf_stitch {
namespace {

using RegionKey = std::tuple<std::string, std::int64_t, bool, std::string>;

struct KnownRegions {
  std::mutex mutex;
  std::map<RegionKey, std::weak_ptr<const ConvertedRegion>> known;
  std::int64_t next = kFirstConvertedRegion;  // no number is given twice
};

KnownRegions& AllRegions() {
  static auto* regions = new KnownRegions;
  return *regions;
}

void Forget(const RegionKey& key) {
  KnownRegions& all = AllRegions();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto known = all.known.find(key);
  if (known != all.known.end() && known->second.expired()) all.known.erase(known);  // else somebody has asked again
}

}  // namespace

std::shared_ptr<const ConvertedRegion> FindConvertedRegion(ConvertedRegion region) {
  const std::string nodes = Sha256::Hex(Sha256::Of(region.own_nodes.data(), region.own_nodes.size()));
  const RegionKey key{region.module, region.region, region.named, nodes};
  KnownRegions& all = AllRegions();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::weak_ptr<const ConvertedRegion>& known = all.known[key];
  if (auto held = known.lock()) return held;
  region.number = all.next++;
  const std::shared_ptr<const ConvertedRegion> made(new ConvertedRegion(std::move(region)),
                                                    [key](const ConvertedRegion* gone) {
                                                      Forget(key);
                                                      delete gone;
                                                    });
  known = made;
  return made;
}

}  // namespace tf_stitch
