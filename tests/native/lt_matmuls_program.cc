// Prints what matmuls leave in a cuBLASLt that only keeps books (its file is the argument), and what they ask of it.
#include <dlfcn.h>

#include <cstdio>
#include <memory>

#include "op/element_types.h"
#include "op/gemm.h"
#include "tensorflow/core/framework/types.h"

bool deterministic = true;  // no proposal is tried

namespace tsl {
bool tensor_float_32_execution_enabled() { return false; }
bool OpDeterminismRequired() { return deterministic; }
}  // namespace tsl

namespace tensorflow {
int DataTypeSize(DataType type) { return type == DT_HALF ? 2 : 4; }
}  // namespace tensorflow

namespace tf_stitch {
namespace {

constexpr unsigned kAll = 0xff, kNone = 0;

GemmSpec Product(std::int64_t rows, int type, bool bias, bool addend) {
  const MatrixLayout square{false, 8, 64};
  return {type, 1, rows, 8, 8, square, square, square, bias, addend, Activation::kNone};
}

std::shared_ptr<DeviceCall> Find(const GemmSpec& spec, unsigned unaligned = kNone) {
  std::shared_ptr<DeviceCall> gemm;
  const std::string error = FindGpuGemm(nullptr, spec, {kNone, unaligned, 0}, &gemm);
  if (!error.empty()) std::printf("%s\n", error.c_str());
  return gemm;
}

void Run(const char* library) {
  std::printf("loaded: %s\n", LoadCublasLt({library}).c_str());
  void* fake = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  const auto live = reinterpret_cast<int (*)()>(dlsym(fake, "fake_live"));
  const auto alignments = reinterpret_cast<const std::uint32_t* (*)()>(dlsym(fake, "fake_alignments"));
  const auto bias = reinterpret_cast<std::uintptr_t (*)()>(dlsym(fake, "fake_bias"));
  const auto refuse = reinterpret_cast<void (*)(bool)>(dlsym(fake, "fake_refuse"));

  const auto asked = [&](const char* title, int type, unsigned unaligned) {
    Find(Product(1, type, true, true), unaligned);
    const std::uint32_t* found = alignments();
    std::printf("%s: %u %u %u %u, bias %d\n", title, found[0], found[1], found[2], found[3], static_cast<int>(bias()));
  };
  asked("aligned", tensorflow::DT_FLOAT, kNone);
  asked("unaligned", tensorflow::DT_FLOAT, kAll);
  asked("unaligned halves", tensorflow::DT_HALF, kAll);
  asked("a", tensorflow::DT_FLOAT, 1);
  asked("b", tensorflow::DT_FLOAT, 2);
  asked("the addend", tensorflow::DT_FLOAT, 8);
  asked("the result", tensorflow::DT_FLOAT, 16);

  const auto scales = reinterpret_cast<const std::uintptr_t* (*)()>(dlsym(fake, "fake_scales"));
  const auto transposed = reinterpret_cast<const std::int32_t* (*)()>(dlsym(fake, "fake_transposed"));
  const auto layout = reinterpret_cast<const std::int64_t* (*)(int)>(dlsym(fake, "fake_layout"));
  std::shared_ptr<DeviceCall> float8;
  const Float8GemmSpec spec{tensorflow::DT_BFLOAT16, kFloat8E5m2, kFloat8E4m3fn, 32, 48, 64};
  const std::string refused = FindGpuFloat8Gemm(nullptr, spec, {kNone, 1 | 8 | 16, 0}, &float8);
  std::printf("float8: \"%s\", %u %u %u %u, scales %d %d, transposed %d %d\n", refused.c_str(), alignments()[0],
              alignments()[1], alignments()[2], alignments()[3], static_cast<int>(scales()[0]),
              static_cast<int>(scales()[1]), transposed()[0], transposed()[1]);
  void* of_float8[] = {nullptr, nullptr, reinterpret_cast<void*>(256), reinterpret_cast<void*>(512), nullptr};
  const int before_run = live();
  float8->Run(nullptr, of_float8, nullptr, true);
  std::printf("runs with scales %d %d: %d more live\n", static_cast<int>(scales()[0]), static_cast<int>(scales()[1]),
              live() - before_run);
  const char* const names[] = {"a", "b", "the result"};
  std::shared_ptr<DeviceCall> again;
  const Float8GemmSpec other{tensorflow::DT_BFLOAT16, kFloat8E4m3fn, kFloat8E4m3fn, 32, 48, 64};
  FindGpuFloat8Gemm(nullptr, other, {kNone, 1 | 8 | 16, 0}, &again);
  std::printf("of other types: %s\n", again == float8 ? "the same" : "another");
  for (int i = 0; i < 3; ++i) {
    const std::int64_t* found = layout(i);
    std::printf("%s: type %d, %d x %d, stride %d\n", names[i], static_cast<int>(found[0]), static_cast<int>(found[1]),
                static_cast<int>(found[2]), static_cast<int>(found[3]));
  }

  const int before = live();
  refuse(true);
  Find(Product(2, tensorflow::DT_FLOAT, false, false));
  refuse(false);
  std::printf("refused: %d more live\n", live() - before);

  void* arguments[5] = {};
  for (int i = 0; i < 3; ++i) Find(Product(1, tensorflow::DT_FLOAT, true, true))->Run(nullptr, arguments, nullptr, true);
  std::printf("runs with a bias: %d more live\n", live() - before);

  const std::shared_ptr<DeviceCall> first = Find(Product(3, tensorflow::DT_FLOAT, false, false));
  std::printf("found again: %d\n", first == Find(Product(3, tensorflow::DT_FLOAT, false, false)));
  for (int rows = 4; rows < 10'000; ++rows) Find(Product(rows, tensorflow::DT_FLOAT, false, false));
  const int many = live();
  for (int rows = 10'000; rows < 20'000; ++rows) Find(Product(rows, tensorflow::DT_FLOAT, false, false));
  std::printf("of many lengths: %s, then %d more\n", many > 1000 ? "some" : "none", live() - many);
  std::printf("one that is held runs: \"%s\"\n", first->Run(nullptr, arguments, nullptr, true).c_str());

  deterministic = false;
  const auto matmuls = reinterpret_cast<int (*)()>(dlsym(fake, "fake_matmuls"));
  const std::shared_ptr<DeviceCall> tried = Find(Product(5, tensorflow::DT_FLOAT, false, false));
  const auto refuse_matmuls = reinterpret_cast<void (*)(int)>(dlsym(fake, "fake_refuse_matmuls"));
  for (const int refused : {1, 2}) {
    refuse_matmuls(refused);
    std::printf("%d of two proposals refused: \"%s\"\n", refused,
                tried->Run(nullptr, arguments, nullptr, false).c_str());
  }
  for (const bool trial : {false, false, true, true, false}) {
    const int so_far = matmuls();
    tried->Run(nullptr, arguments, nullptr, trial);
    std::printf("%s: %s, %s\n", trial ? "a trial" : "no trial", matmuls() - so_far > 1 ? "many" : "one",
                tried->settled() ? "settled" : "open");
  }
}

}  // namespace

const CudaDriver& Cuda() {
  static const CudaDriver driver = [] {
    CudaDriver made{};
    made.CtxGetDevice = [](CUdevice*) { return 1; };
    made.EventCreate = [](CUevent* event, unsigned) { return *event = reinterpret_cast<CUevent>(1), 0; };
    made.EventRecord = [](CUevent, CUstream) { return 0; };
    made.EventSynchronize = [](CUevent) { return 0; };
    made.EventElapsedTime = [](float* milliseconds, CUevent, CUevent) { return *milliseconds = 1, 0; };
    made.EventDestroy = [](CUevent) { return 0; };
    return made;
  }();
  return driver;
}

}  // namespace tf_stitch

int main(int, char** arguments) { tf_stitch::Run(arguments[1]); }
