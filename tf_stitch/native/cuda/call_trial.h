// What a GPU needs for an executable, before anything runs it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "op/executable.h"

namespace tf_stitch {

// "" or why a GPU cannot make the library calls of an executable without inputs, variables and outputs (executable.h),
// all memory of which is aligned. Those that it can are made, and found when an executable asks for the same ones.
std::string TryCalls(int device, const std::vector<std::int64_t>& words);

// Loads the modules of an executable whose memory is aligned, and makes its library calls: whoever runs it finds them. ""
// or why that cannot be done.
std::string LoadAhead(int device, const std::vector<std::int64_t>& words, const Extents& extents);

}  // namespace tf_stitch
