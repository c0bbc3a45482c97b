#include "cuda/cudnn_library.h"

#include "cuda/open_library.h"

namespace tf_stitch {
namespace {

constexpr std::size_t kOldest = 90000, kNext = 100000;  // versions whose numbers the header has

}  // namespace

DnnLibrary LoadDnnLibrary(const std::vector<std::string>& candidates) {
  DnnLibrary dnn{};
  void* library = OpenLibrary({"libcudnn.so.9"}, candidates);
  if (library == nullptr) {
    dnn.error = "no cuDNN 9 library";
    return dnn;
  }
  const auto resolve = Resolver(library);
  const bool whole = resolve("cudnnGetVersion", &dnn.GetVersion) && resolve("cudnnCreate", &dnn.Create) &&
                     resolve("cudnnSetStream", &dnn.SetStream) &&
                     resolve("cudnnBackendCreateDescriptor", &dnn.CreateDescriptor) &&
                     resolve("cudnnBackendDestroyDescriptor", &dnn.DestroyDescriptor) &&
                     resolve("cudnnBackendFinalize", &dnn.Finalize) &&
                     resolve("cudnnBackendSetAttribute", &dnn.SetAttribute) &&
                     resolve("cudnnBackendGetAttribute", &dnn.GetAttribute) &&
                     resolve("cudnnBackendExecute", &dnn.Execute);
  dnn.error = whole ? "" : "this cuDNN lacks functions";
  if (whole && (dnn.GetVersion() < kOldest || dnn.GetVersion() >= kNext)) {
    dnn.error = "this cuDNN has version " + std::to_string(dnn.GetVersion()) + ", not 9";
  }
  return dnn;
}

}  // namespace tf_stitch
