// Whether libraries take calls, before anything runs them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tf_stitch {

// "" or why a GPU cannot make the library calls of an executable without inputs, variables and outputs (executable.h),
// all memory of which is aligned. Those that it can are made, and found when an executable asks for the same ones.
std::string TryCalls(int device, const std::vector<std::int64_t>& words);

}  // namespace tf_stitch
