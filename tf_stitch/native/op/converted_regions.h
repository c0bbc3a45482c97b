// Regions of converted models, as the nodes of a graph name them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

namespace tf_stitch {

// They have numbers of their own in a process, from here on.
constexpr std::int64_t kFirstConvertedRegion = std::int64_t{1} << 48;

struct ConvertedRegion {
  std::string module;     // digest of the one that has its kernels
  std::int64_t region;    // in the module
  bool named;             // its variables are named, not passed
  std::string own_nodes;  // a serialized FunctionDef
  std::int64_t number = 0;
};

// The region, with its number: the same one for all nodes that agree, as long as one holds it. Nodes that differ in any of
// it share nothing. The module may come later.
std::shared_ptr<const ConvertedRegion> FindConvertedRegion(ConvertedRegion region);

}  // namespace tf_stitch
