// The process's cuDNN, and its handles, which all calls of a context share.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "cuda/cudnn_library.h"

namespace tf_stitch {

// A handle enqueues into one stream at a time.
struct SharedHandle {
  std::mutex mutex;
  DnnHandle handle = nullptr;
};

// Both live as long as the process.
struct Cudnn {
  const DnnLibrary* library = nullptr;
  SharedHandle* handle = nullptr;
};

// "" or why this process has no cuDNN. `candidates` are files to try after what is already loaded.
std::string LoadCudnn(const std::vector<std::string>& candidates);

// Of the cuDNN that is loaded; 0: none is.
std::size_t CudnnVersion();

// "" or why `context` has no cuDNN.
std::string FindCudnn(CUcontext context, Cudnn* found);

}  // namespace tf_stitch
