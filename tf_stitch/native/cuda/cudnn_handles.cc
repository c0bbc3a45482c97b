#include "cuda/cudnn_handles.h"

#include <map>

#include "cuda/cudnn_descriptor.h"

namespace tf_stitch {
namespace {

struct Process {
  std::mutex mutex;
  DnnLibrary library;
  std::map<CUcontext, SharedHandle> handles;
};

Process& ThisProcess() {
  static auto* process = new Process;  // contexts die before static destructors run
  return *process;
}

}  // namespace

std::string LoadCudnn(const std::vector<std::string>& candidates) {
  Process& process = ThisProcess();
  std::lock_guard<std::mutex> lock(process.mutex);
  if (!process.library.error.empty()) process.library = LoadDnnLibrary(candidates);
  return process.library.error;
}

std::size_t CudnnVersion() {
  Process& process = ThisProcess();
  std::lock_guard<std::mutex> lock(process.mutex);
  return process.library.error.empty() ? process.library.GetVersion() : 0;
}

std::string FindCudnn(CUcontext context, Cudnn* found) {
  const std::string missing = LoadCudnn({});
  if (!missing.empty()) return missing;
  Process& process = ThisProcess();
  std::lock_guard<std::mutex> lock(process.mutex);
  SharedHandle& handle = process.handles[context];
  if (handle.handle == nullptr) {
    const std::string error = DnnFailed("cudnnCreate", process.library.Create(&handle.handle));
    if (!error.empty()) return error;
  }
  *found = {&process.library, &handle};
  return "";
}

}  // namespace tf_stitch
