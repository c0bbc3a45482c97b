// The modules of this process by digest, as long as somebody holds them.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "op/aot_module.h"

namespace tf_stitch {

// Reads a module's file. "" or why it cannot be read.
using ReadFile = std::function<std::string(std::string* bytes)>;

// The module of a digest, from `path` unless it is loaded. Null: `error` says why. It is freed with the last of its
// holders: the op that loaded it, and the regions that run its kernels. A server may load a version each hour.
std::shared_ptr<const AotModule> LoadModule(const std::string& digest, const std::string& path, const ReadFile& read,
                                            std::string* error);

// A module that was loaded before. It is read again where nobody holds it: TensorFlow frees ops that it makes anew later,
// as in tf.random.set_seed.
std::shared_ptr<const AotModule> FindModule(const std::string& digest, std::string* error);

// The folder of the model that a module came with, for people; what is known of it, where that is not.
std::string ModelOf(const std::string& digest);

}  // namespace tf_stitch
