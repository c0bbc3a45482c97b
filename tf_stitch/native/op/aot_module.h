// What a converted SavedModel carries: executables by region and shapes, and the kernels they run, built ahead of time.
// One file, an asset of the model; tf_stitch/convert/module_file.py writes it and describes it.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tf_stitch {

class AotModule {
 public:
  // A device as modules tell them apart: a CPU by what its instructions are, a GPU by its compute capability ("90").
  struct Device {
    bool on_gpu = false;
    int architecture = 0;  // of a GPU
  };

  AotModule() = default;
  ~AotModule();  // unloads the libraries: no executable of it may be left
  AotModule(const AotModule&) = delete;
  AotModule& operator=(const AotModule&) = delete;

  // `bytes` is the file, `digest` what the model says of it: hex SHA-256 of its head, which has those of the kernels.
  // "" or why it is refused.
  static std::string Parse(std::string bytes, const std::string& digest, std::shared_ptr<const AotModule>* module);

  // The words of an executable, with addresses in them, for a shape key; "" or why there are none. `references` gets
  // what each word stood for (executable.h has the form).
  std::string Words(std::int64_t region, const Device& device, const std::vector<std::int64_t>& key,
                    std::vector<std::int64_t>* words, std::vector<std::int64_t>* references) const;

 private:
  struct Blob {
    std::int64_t offset, bytes;
    std::string digest;  // 32 bytes
  };
  // Kernels of one source, built for several kinds of processor.
  struct Variant {
    int level;  // of a CPU: 0, 1 (AVX2), 2 (AVX-512); of a GPU its compute capability, negative for PTX
    int blob;
  };
  struct Symbol {
    int library;
    std::string name;
  };
  struct LoadedLibrary {
    void* handle;  // of dlopen
    int file;      // its descriptor
  };
  struct Built {
    bool on_gpu;
    int architecture;
    std::int64_t flags;  // that a key has to have
    std::vector<std::int64_t> words;
  };
  using Shapes = std::vector<std::int64_t>;

  void ReadHead(const std::vector<std::int64_t>& words);
  const Built* Choose(std::int64_t region, const Device& device, const std::vector<std::int64_t>& key) const;
  std::int64_t Resolve(std::int64_t reference, const Device& device) const;
  const Blob& Checked(int library, const Device& device) const;
  const Variant* Best(int library, const Device& device) const;
  void* Load(int library) const;

  std::string bytes_;
  std::size_t blobs_at_ = 0;
  std::vector<Blob> blobs_;
  std::vector<std::vector<Variant>> libraries_;
  std::vector<Symbol> symbols_;
  std::vector<std::map<Shapes, std::vector<Built>>> regions_;
  mutable std::mutex mutex_;
  mutable std::map<int, LoadedLibrary> loaded_;  // of this CPU
  mutable std::map<int, bool> checked_;  // blobs whose digest is right
};

}  // namespace tf_stitch
