// Reads the file of a module, from a folder that the program allows.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tf_stitch {

// A larger file is no module of ours. It bounds what is allocated before the digest is known.
constexpr std::int64_t kMostModuleBytes = std::int64_t{2} << 30;

// Modules are loaded from these folders alone from here on, and from those of earlier calls. A process that never calls
// it has loaded the op library to run converted models, and loads all of them.
void RestrictModules(const std::vector<std::string>& folders);
bool ModulesRestricted();

// Reads a local file. "" or why there is no module: it is a FIFO, a device or a folder, is too large, lies outside of the
// folders that are allowed, or cannot be read. Links are followed before the folder is looked at.
std::string ReadModuleFile(const std::string& path, std::string* bytes);

}  // namespace tf_stitch
