// All runtimes of regions, by region and device; and sums over them, for the report.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "op/region_runtime.h"

namespace tf_stitch {

// The runtime of a session's region on a device (-1: CPU); lives for the process, but not all of what it holds (see
// Enter). `signature` is what all nodes of a region share (numbers and types of inputs and outputs); null when it differs
// from the first node's.
std::shared_ptr<RegionRuntime> FindRuntime(std::int64_t region, int device, CUcontext context,
                                           const std::vector<std::int32_t>& signature);

// That of a converted model's region, which goes with the last of its holders; what it has counted stays in the sums.
std::shared_ptr<RegionRuntime> FindRuntime(const std::shared_ptr<const ConvertedRegion>& region, int device,
                                           CUcontext context, const std::vector<std::int32_t>& signature);

// Sums a counter over devices; region < 0 means every region.
std::int64_t SumRuns(std::int64_t region);
std::int64_t SumFallbacks(std::int64_t region);
std::int64_t SumPreferredFallbacks(std::int64_t region);
std::int64_t SumShadows(std::int64_t region);
int KernelsOf(std::int64_t region);

std::vector<ReasonRecord> AllReasons();
std::vector<GraphRecord> AllGraphs();
std::vector<ShapeRecord> AllShapes();  // of converted models

}  // namespace tf_stitch
