// What graphs may name as regions.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "op/converted_regions.h"

namespace tf_stitch {

// A random number that the graphs of this process's session carry, 0 where there is no session: a graph that comes from
// elsewhere does not know it, and cannot have the kernels of another graph's region run on its tensors.
inline std::atomic<std::int64_t>& GraphToken() {
  static std::atomic<std::int64_t> token{0};
  return token;
}

// "" or why a node may not name the region of a session.
inline std::string RefuseRegion(std::int64_t region, std::int64_t token) {
  if (region < 0 || region >= kFirstConvertedRegion) return "there is no region " + std::to_string(region);
  const std::int64_t wanted = GraphToken().load(std::memory_order_relaxed);
  if (wanted == 0 || token == wanted) return "";
  return "region " + std::to_string(region) + " belongs to another graph: this one was not rewritten in this process";
}

}  // namespace tf_stitch
