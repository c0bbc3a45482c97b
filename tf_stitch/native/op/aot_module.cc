#include "op/aot_module.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "op/executable.h"
#include "op/sha256.h"
#include "op/word_reader.h"

namespace tf_stitch {
namespace {

constexpr char kMagic[] = "tf_stitch module";  // 16 bytes
constexpr std::size_t kMagicBytes = sizeof(kMagic) - 1;
constexpr std::int64_t kVersion = 1;

class HeadReader : public WordReader {
 public:
  using WordReader::WordReader;

  std::vector<std::int64_t> Words(const char* what) {
    const std::int64_t count = Count(what);
    std::vector<std::int64_t> words;
    words.reserve(count);
    for (std::int64_t i = 0; i < count; ++i) words.push_back(Next(what));
    return words;
  }

  std::string Text(const char* what) {
    const std::int64_t bytes = Ranged(what, 0, 1 << 16);
    std::string text;
    for (std::int64_t i = 0; i < (bytes + 7) / 8; ++i) {
      const std::int64_t word = Next(what);
      text.append(reinterpret_cast<const char*>(&word), sizeof(word));
    }
    text.resize(bytes);
    return text;
  }
};

// What of the x86 instruction sets this processor and its system have.
int CpuLevel() {
#if defined(__x86_64__)
  static const int level = [] {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) return 0;
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
    return wide ? 2 : 1;
  }();
  return level;
#else
  return 0;
#endif
}

// Where the loader finds a library in memory.
std::string PathOf(int file) { return "/proc/self/fd/" + std::to_string(file); }

}  // namespace

AotModule::~AotModule() {
  for (const auto& [library, loaded] : loaded_) {
    dlclose(loaded.handle);
    // The loader knows libraries by their paths, and would take the next file of this number for one that it keeps.
    void* still = dlopen(PathOf(loaded.file).c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (still == nullptr) close(loaded.file);
    if (still != nullptr) dlclose(still);
  }
}

std::string AotModule::Parse(std::string bytes, const std::string& digest, std::shared_ptr<const AotModule>* module) {
  std::int64_t count = 0;
  const std::size_t start = kMagicBytes + sizeof(count);
  if (bytes.size() < start || bytes.compare(0, kMagicBytes, kMagic) != 0) return "the file is no module";
  std::memcpy(&count, bytes.data() + kMagicBytes, sizeof(count));
  if (count < 1 || static_cast<std::size_t>(count) > (bytes.size() - start) / sizeof(count)) return "the file ends early";
  const std::size_t end = start + count * sizeof(count);
  if (Sha256::Hex(Sha256::Of(bytes.data(), end)) != digest) return "the file is not the one that the model names";
  std::vector<std::int64_t> words(count);
  std::memcpy(words.data(), bytes.data() + start, count * sizeof(count));
  auto made = std::make_shared<AotModule>();
  made->bytes_ = std::move(bytes);
  made->blobs_at_ = end;
  try {
    made->ReadHead(words);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  *module = std::move(made);
  return "";
}

void AotModule::ReadHead(const std::vector<std::int64_t>& words) {
  HeadReader reader(words);
  Require(reader.Next("version") == kVersion, "the module is of another version of tf_stitch: convert the model anew");
  Require(reader.Next("abi") == kAbi, "its executables are of another version of tf_stitch: convert the model anew");
  const std::int64_t room = static_cast<std::int64_t>(bytes_.size() - blobs_at_);
  for (std::int64_t i = reader.Count("blobs"); i > 0; --i) {
    Blob blob{reader.Ranged("offset", 0, room)};
    blob.bytes = reader.Ranged("bytes", 0, room - blob.offset);
    for (int k = 0; k < 4; ++k) {
      const std::int64_t word = reader.Next("digest");
      blob.digest.append(reinterpret_cast<const char*>(&word), sizeof(word));
    }
    blobs_.push_back(std::move(blob));
  }
  for (std::int64_t i = reader.Count("libraries"); i > 0; --i) {
    std::vector<Variant>& variants = libraries_.emplace_back();
    for (std::int64_t k = reader.Count("variants"); k > 0; --k) {
      const int level = static_cast<int>(reader.Ranged("level", -1000, 1000));
      variants.push_back({level, static_cast<int>(reader.Ranged("blob", 0, std::int64_t(blobs_.size()) - 1))});
    }
  }
  for (std::int64_t i = reader.Count("symbols"); i > 0; --i) {
    const int library = static_cast<int>(reader.Ranged("library", 0, std::int64_t(libraries_.size()) - 1));
    symbols_.push_back({library, reader.Text("symbol")});
  }
  for (std::int64_t i = reader.Count("regions"); i > 0; --i) {
    std::map<Shapes, std::vector<Built>>& region = regions_.emplace_back();
    for (std::int64_t k = reader.Count("executables"); k > 0; --k) {
      Built built{reader.Ranged("device", 0, 1) == 1};
      built.architecture = static_cast<int>(reader.Ranged("architecture", 0, 1000));
      built.flags = reader.Next("flags");
      Shapes shapes = reader.Words("shapes");
      built.words = reader.Words("words");
      region[std::move(shapes)].push_back(std::move(built));
    }
  }
  Require(reader.AtEnd(), "words are left over");
}

std::string AotModule::Words(std::int64_t region, const Device& device, const std::vector<std::int64_t>& key,
                             std::vector<std::int64_t>* words, std::vector<std::int64_t>* references) const {
  const Built* built = Choose(region, device, key);
  if (built == nullptr) return "no kernels were built for these shapes when the model was converted";
  try {
    words->clear();
    words->reserve(built->words.size());
    for (const std::int64_t word : built->words) {
      words->push_back(word >= kReference ? Resolve(word - kReference, device) : word);
    }
    *references = built->words;
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

const AotModule::Built* AotModule::Choose(std::int64_t region, const Device& device,
                                          const std::vector<std::int64_t>& key) const {
  if (region < 0 || region >= static_cast<std::int64_t>(regions_.size()) || key.empty()) return nullptr;
  const auto found = regions_[region].find(Shapes(key.begin() + 1, key.end()));
  if (found == regions_[region].end()) return nullptr;
  const Built* best = nullptr;
  for (const Built& built : found->second) {
    if (built.on_gpu != device.on_gpu || built.architecture > device.architecture) continue;
    if ((built.flags & ~key[0]) != 0) continue;
    const auto rank = [](const Built& one) { return std::make_pair(one.architecture, __builtin_popcountll(one.flags)); };
    if (best == nullptr || rank(*best) < rank(built)) best = &built;
  }
  return best;
}

std::int64_t AotModule::Resolve(std::int64_t reference, const Device& device) const {
  const std::int64_t kind = reference / kReferenceKind, number = reference % kReferenceKind;
  const bool of_symbol = kind == kFunction || kind == kName;
  Require(number < static_cast<std::int64_t>(of_symbol ? symbols_.size() : libraries_.size()),
          "an executable names a kernel that is not there");
  switch (kind) {
    case kFunction: {
      const Symbol& symbol = symbols_[number];
      void* function = dlsym(Load(symbol.library), symbol.name.c_str());
      Require(function != nullptr, "a library lacks the kernel " + symbol.name);
      return reinterpret_cast<std::int64_t>(function);
    }
    case kName:
      return reinterpret_cast<std::int64_t>(symbols_[number].name.c_str());
    case kImage:
      return reinterpret_cast<std::int64_t>(bytes_.data() + blobs_at_ + Checked(number, device).offset);
    case kImageBytes:
      return Checked(number, device).bytes;
  }
  throw std::invalid_argument("an executable refers to something unknown");
}

// Of a CPU the highest level that it has; of a GPU the binary for it, else text that its driver compiles.
const AotModule::Variant* AotModule::Best(int library, const Device& device) const {
  const Variant* best = nullptr;
  for (const Variant& variant : libraries_[library]) {
    if (device.on_gpu) {
      if (variant.level == device.architecture) return &variant;
      if (variant.level >= 0 || -variant.level > device.architecture) continue;
      if (best == nullptr || variant.level < best->level) best = &variant;
    } else if (variant.level <= CpuLevel() && (best == nullptr || variant.level > best->level)) {
      best = &variant;
    }
  }
  return best;
}

const AotModule::Blob& AotModule::Checked(int library, const Device& device) const {
  const Variant* variant = Best(library, device);
  Require(variant != nullptr, "no kernels were built for this processor");
  const Blob& blob = blobs_[variant->blob];
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [known, fresh] = checked_.emplace(variant->blob, false);
  if (fresh) {
    const Sha256::Digest digest = Sha256::Of(bytes_.data() + blobs_at_ + blob.offset, blob.bytes);
    known->second = std::memcmp(digest.data(), blob.digest.data(), digest.size()) == 0;
  }
  Require(known->second, "kernels are refused: their hash is not the one in the model's manifest");
  return blob;
}

// From memory: the file may be gone, or have been changed since its hash was taken.
void* AotModule::Load(int library) const {
  const Blob& blob = Checked(library, Device{});
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = loaded_.find(library);
  if (known != loaded_.end()) return known->second.handle;
  const int file = memfd_create("tf_stitch_kernels", MFD_CLOEXEC);
  Require(file >= 0, "no memory file for kernels");
  const char* at = bytes_.data() + blobs_at_ + blob.offset;
  std::int64_t left = blob.bytes;
  while (left > 0) {
    const ssize_t written = write(file, at, left);
    if (written <= 0) break;
    at += written;
    left -= written;
  }
  void* handle = left == 0 ? dlopen(PathOf(file).c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  const char* error = handle == nullptr && left == 0 ? dlerror() : "no memory";
  const std::string problem = std::string("kernels could not be loaded: ") + (error == nullptr ? "" : error);
  if (handle == nullptr) close(file);  // else as long as the library is loaded
  Require(handle != nullptr, problem);
  loaded_[library] = {handle, file};
  return handle;
}

}  // namespace tf_stitch
