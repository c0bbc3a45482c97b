// An NCCL that only keeps books: in which order it was called, with what, and which call is to fail.
#include <cstddef>
#include <cstdio>
#include <string>

namespace {

std::string refused;
int made = 0, open = 0;

int Answer(const char* call) { return refused == call ? 3 : 0; }

}  // namespace

extern "C" {

void fake_refuse(const char* call) { refused = call; }

int ncclCommInitAll(void** comms, int count, const int* devices) {
  std::printf("communicators of");
  for (int i = 0; i < count; ++i) {
    std::printf(" %d", devices[i]);
    comms[i] = reinterpret_cast<void*>(static_cast<std::size_t>(++made));
  }
  std::printf("\n");
  return Answer("ncclCommInitAll");
}
int ncclGroupStart() {
  std::printf("group\n");
  const int code = Answer("ncclGroupStart");
  if (code == 0) ++open;
  return code;
}
int ncclGroupEnd() { return std::printf("end\n"), --open, Answer("ncclGroupEnd"); }
int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int operation, void* comm, void* stream) {
  std::printf("  %zu of type %d, operation %d, communicator %zu, stream %zu: %zu to %zu%s\n", count, type, operation,
              reinterpret_cast<std::size_t>(comm), reinterpret_cast<std::size_t>(stream),
              reinterpret_cast<std::size_t>(from), reinterpret_cast<std::size_t>(to), open == 1 ? "" : ", in no group");
  return Answer("ncclAllReduce");
}
const char* ncclGetErrorString(int code) { return code == 3 ? "internal error" : "?"; }

}  // extern "C"
