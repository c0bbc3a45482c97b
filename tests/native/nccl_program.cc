// What is asked of NCCL for sums over GPUs. Prints lines for test_nccl_library.py.
#include <dlfcn.h>

#include <cstdio>

#include "cuda/nccl_library.h"

using tf_stitch::NcclPart;

namespace {

NcclPart Part(int device, std::size_t number) {
  return {device, reinterpret_cast<tf_stitch::CUstream>(number), reinterpret_cast<const void*>(10 * number),
          reinterpret_cast<void*>(10 * number + 1)};
}

void Sum(const std::vector<NcclPart>& parts) {
  std::printf("\"%s\"\n", tf_stitch::SumOverGpus(parts, 7, tf_stitch::kNcclHalf).c_str());
}

}  // namespace

int main(int, char** arguments) {
  Sum({Part(0, 1)});  // nothing is loaded
  std::printf("loading: \"%s\"\n", tf_stitch::LoadNccl({"/none.so", arguments[1]}).c_str());
  auto* refuse = reinterpret_cast<void (*)(const char*)>(dlsym(dlopen(arguments[1], RTLD_NOW), "fake_refuse"));
  refuse("ncclCommInitAll");
  Sum({Part(0, 1), Part(1, 2)});
  refuse("");
  Sum({Part(0, 1), Part(1, 2)});
  Sum({Part(0, 1), Part(1, 2)});
  Sum({Part(1, 2), Part(3, 4)});
  for (const char* call : {"ncclGroupStart", "ncclAllReduce", "ncclGroupEnd"}) {
    refuse(call);
    Sum({Part(0, 1), Part(1, 2)});
  }
}
