#include "op/loaded_modules.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace tf_stitch {
namespace {

constexpr std::size_t kMostKnown = 256;  // digests, beside those of modules that are held

struct KnownModule {
  std::weak_ptr<const AotModule> module;
  std::string path;
  ReadFile read;
  std::string error;  // why it could not be loaded the last time
  std::int64_t loaded = 0;
};

struct KnownModules {
  std::mutex mutex;
  std::map<std::string, KnownModule> known;  // by digest
  std::int64_t clock = 0;
};

KnownModules& AllModules() {
  static auto* modules = new KnownModules;
  return *modules;
}

// The lock is held. A digest takes a few hundred bytes, for good if nothing dropped it.
void ForgetOldest(KnownModules* all) {
  std::size_t free = 0;
  auto oldest = all->known.end();
  for (auto it = all->known.begin(); it != all->known.end(); ++it) {
    if (!it->second.module.expired()) continue;
    ++free;
    if (oldest == all->known.end() || it->second.loaded < oldest->second.loaded) oldest = it;
  }
  if (free > kMostKnown) all->known.erase(oldest);
}

}  // namespace

std::shared_ptr<const AotModule> LoadModule(const std::string& digest, const std::string& path, const ReadFile& read,
                                            std::string* error) {
  KnownModules& all = AllModules();
  error->clear();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto known = all.known.find(digest);
    const auto held = known == all.known.end() ? nullptr : known->second.module.lock();
    if (held != nullptr) return held;
  }
  std::string bytes;
  std::shared_ptr<const AotModule> module;
  *error = read(&bytes);
  if (error->empty()) *error = AotModule::Parse(std::move(bytes), digest, &module);
  if (!error->empty()) *error = "its kernels could not be read from " + path + ": " + *error;
  const std::lock_guard<std::mutex> lock(all.mutex);
  KnownModule& known = all.known[digest];
  if (auto held = known.module.lock()) {  // another thread was faster
    error->clear();
    return held;
  }
  known = {module, path, read, *error, ++all.clock};
  ForgetOldest(&all);
  return module;
}

std::shared_ptr<const AotModule> FindModule(const std::string& digest, std::string* error) {
  KnownModules& all = AllModules();
  std::string path;
  ReadFile read;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto known = all.known.find(digest);
    if (known == all.known.end()) {
      *error = "the model's initialization has not run: it loads the kernels";
      return nullptr;
    }
    *error = known->second.error;
    if (!error->empty()) return nullptr;
    if (auto held = known->second.module.lock()) return held;
    path = known->second.path;
    read = known->second.read;
  }
  return LoadModule(digest, path, read, error);
}

std::string ModelOf(const std::string& digest) {
  KnownModules& all = AllModules();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto known = all.known.find(digest);
  if (known == all.known.end()) return "the model of module " + digest.substr(0, 12);
  const std::string& path = known->second.path;  // <model>/assets/<file>
  const std::size_t file = path.rfind('/');
  const std::size_t assets = file == std::string::npos || file == 0 ? std::string::npos : path.rfind('/', file - 1);
  return assets == std::string::npos ? path : path.substr(0, assets);
}

}  // namespace tf_stitch
