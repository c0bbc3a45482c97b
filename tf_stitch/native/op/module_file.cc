#include "op/module_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

namespace tf_stitch {
namespace {

struct Allowed {
  std::mutex mutex;
  bool restricted = false;
  std::vector<std::string> folders;
};

Allowed& AllowedFolders() {
  static auto* allowed = new Allowed;
  return *allowed;
}

class File {
 public:
  // Opening a FIFO or a device waits for nobody.
  explicit File(const std::string& path) : number_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) {}
  ~File() {
    if (number_ >= 0) close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int number() const { return number_; }

  // Where the open file lies, without links.
  std::string Place() const {
    char place[PATH_MAX];
    const std::string link = "/proc/self/fd/" + std::to_string(number_);
    const ssize_t length = readlink(link.c_str(), place, sizeof(place));
    return length < 0 ? "" : std::string(place, length);
  }

 private:
  const int number_;
};

std::string Resolved(const std::string& folder) {
  const std::unique_ptr<char, decltype(&std::free)> found(realpath(folder.c_str(), nullptr), &std::free);
  return found == nullptr ? "" : found.get();
}

bool IsIn(const std::string& place, const std::string& folder) {
  const std::string found = Resolved(folder);
  return found == "/" || (!found.empty() && place.compare(0, found.size() + 1, found + "/") == 0);
}

std::string Refuse(const std::string& place) {
  Allowed& allowed = AllowedFolders();
  const std::lock_guard<std::mutex> lock(allowed.mutex);
  if (!allowed.restricted) return "";
  for (const std::string& folder : allowed.folders) {
    if (IsIn(place, folder)) return "";
  }
  return "modules are machine code, and with TF_STITCH=1 are loaded only from folders that TF_STITCH_MODULES or "
         "tf_stitch.allow_modules names";
}

std::string ReadAll(int file, std::int64_t size, std::string* bytes) {
  try {
    bytes->resize(size);
  } catch (const std::bad_alloc&) {
    return "there is no memory for " + std::to_string(size) + " bytes";
  }
  for (std::int64_t at = 0; at < size;) {
    const ssize_t got = read(file, &(*bytes)[at], size - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::strerror(errno);
    if (got == 0) return "the file ends early";
    at += got;
  }
  return "";
}

}  // namespace

void RestrictModules(const std::vector<std::string>& folders) {
  Allowed& allowed = AllowedFolders();
  const std::lock_guard<std::mutex> lock(allowed.mutex);
  allowed.restricted = true;
  allowed.folders.insert(allowed.folders.end(), folders.begin(), folders.end());
}

bool ModulesRestricted() {
  Allowed& allowed = AllowedFolders();
  const std::lock_guard<std::mutex> lock(allowed.mutex);
  return allowed.restricted;
}

std::string ReadModuleFile(const std::string& path, std::string* bytes) {
  // statx is in every glibc from 2.28 on, stat and fstat are functions only from 2.33 on.
  struct statx before {}, found {};
  constexpr unsigned kAsked = STATX_TYPE | STATX_SIZE;
  if (statx(AT_FDCWD, path.c_str(), 0, kAsked, &before) != 0) return std::strerror(errno);
  if (!S_ISREG(before.stx_mode)) return "it is no regular file";  // opening a device may do something
  const File file(path);
  if (file.number() < 0 || statx(file.number(), "", AT_EMPTY_PATH, kAsked, &found) != 0) return std::strerror(errno);
  if (!S_ISREG(found.stx_mode)) return "it is no regular file";
  if (found.stx_size > std::uint64_t{kMostModuleBytes}) {
    return "it has " + std::to_string(found.stx_size) + " bytes, and a module has at most " +
           std::to_string(kMostModuleBytes);
  }
  const std::string refused = Refuse(file.Place());
  return refused.empty() ? ReadAll(file.number(), found.stx_size, bytes) : refused;
}

}  // namespace tf_stitch
