#include "cuda/nccl_library.h"

#include <map>
#include <mutex>

#include "cuda/open_library.h"

namespace tf_stitch {
namespace {

NcclLibrary& LoadedNccl() {
  static auto* library = new NcclLibrary;
  return *library;
}

NcclLibrary Resolve(const std::vector<std::string>& candidates) {
  NcclLibrary nccl{};
  void* library = OpenLibrary({"libnccl.so.2"}, candidates);
  if (library == nullptr) {
    nccl.error = "no NCCL 2 library";
    return nccl;
  }
  const auto resolve = Resolver(library);
  const bool whole = resolve("ncclCommInitAll", &nccl.CommInitAll) && resolve("ncclGroupStart", &nccl.GroupStart) &&
                     resolve("ncclGroupEnd", &nccl.GroupEnd) && resolve("ncclAllReduce", &nccl.AllReduce) &&
                     resolve("ncclGetErrorString", &nccl.GetErrorString);
  nccl.error = whole ? "" : "this NCCL lacks functions";
  return nccl;
}

std::string NcclError(const char* call, int code) {
  return code == 0 ? "" : std::string(call) + ": " + Nccl().GetErrorString(code);
}

// The communicators of these GPUs, made for the first sum over them; in `error` why there are none. Under a lock.
const std::vector<NcclComm>& Communicators(const std::vector<int>& devices, std::string* error) {
  static auto* made = new std::map<std::vector<int>, std::vector<NcclComm>>;
  std::vector<NcclComm>& found = (*made)[devices];
  if (found.empty()) {
    found.resize(devices.size());
    const int count = static_cast<int>(devices.size());
    *error = NcclError("ncclCommInitAll", Nccl().CommInitAll(found.data(), count, devices.data()));
    if (!error->empty()) found.clear();
  }
  return found;
}

}  // namespace

const std::string& LoadNccl(const std::vector<std::string>& candidates) {
  static std::once_flag once;
  std::call_once(once, [&] { LoadedNccl() = Resolve(candidates); });
  return LoadedNccl().error;
}

const NcclLibrary& Nccl() { return LoadedNccl(); }

std::string SumOverGpus(const std::vector<NcclPart>& parts, std::size_t count, int type) {
  static auto* mutex = new std::mutex;  // one order on all streams: else two sums could wait for each other
  const std::lock_guard<std::mutex> lock(*mutex);
  if (!Nccl().error.empty()) return Nccl().error;
  std::vector<int> devices;
  for (const NcclPart& part : parts) devices.push_back(part.device);
  std::string error;
  const std::vector<NcclComm>& communicators = Communicators(devices, &error);
  if (!error.empty()) return error;
  error = NcclError("ncclGroupStart", Nccl().GroupStart());
  if (!error.empty()) return error;
  for (std::size_t i = 0; i < parts.size() && error.empty(); ++i) {
    const NcclPart& part = parts[i];
    error = NcclError("ncclAllReduce", Nccl().AllReduce(part.from, part.to, count, type, kNcclSum, communicators[i],
                                                        part.stream));
  }
  const std::string ended = NcclError("ncclGroupEnd", Nccl().GroupEnd());
  return error.empty() ? ended : error;
}

}  // namespace tf_stitch
