// A library of NVIDIA's by dlopen: preferably the copy that TensorFlow has loaded itself.
#pragma once
#include <dlfcn.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace tf_stitch {

// The first of `names` that is loaded already, else of the files `candidates` that can be; null if there is none.
inline void* OpenLibrary(std::initializer_list<const char*> names, const std::vector<std::string>& candidates) {
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return library;
  }
  for (const std::string& name : candidates) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

// Looks functions of a library up; whether it has them.
inline auto Resolver(void* library) {
  return [library](const char* name, auto* function) {
    *reinterpret_cast<void**>(function) = dlsym(library, name);
    return *function != nullptr;
  };
}

}  // namespace tf_stitch
