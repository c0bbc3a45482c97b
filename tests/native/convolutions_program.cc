// Prints what convolutions ask of a cuDNN that only keeps books (its file is the argument), and what they leave in it.
#include <dlfcn.h>

#include <cstdio>
#include <memory>

#include "cuda/cudnn.h"
#include "cuda/cudnn_handles.h"
#include "tensorflow/core/framework/types.h"

bool deterministic = true;  // no proposal is tried
bool tf32 = true;

namespace tsl {
bool tensor_float_32_execution_enabled() { return tf32; }
bool OpDeterminismRequired() { return deterministic; }
}  // namespace tsl

namespace tensorflow {
int DataTypeSize(DataType type) { return type == DT_HALF ? 2 : 4; }
}  // namespace tensorflow

namespace tf_stitch {
namespace {

constexpr std::size_t kRoom = 1000;
float times[5] = {1, 1, 1, 1, 1};  // of a run by each configuration
int (*executed)();
void* const kStream = reinterpret_cast<void*>(7);

// Images [n, 9, 10, 8], filters [16, 3, 2, 4], results [n, 5, 9, 16].
ConvolutionSpec Spec(std::int64_t n, ConvolutionPass pass, int type = tensorflow::DT_FLOAT) {
  return {pass, type, n, 8, 16, 2, {9, 10}, {3, 2}, {5, 9}, {2, 1}, {1, 1}, {1, 0}};
}

// Images [2, 7, 9, 10, 8], filters [16, 2, 3, 2, 8], results [2, 6, 5, 9, 16].
ConvolutionSpec OfVolumes() {
  return {ConvolutionPass::kForward, tensorflow::DT_FLOAT, 2, 8, 16, 1, {7, 9, 10}, {2, 3, 2}, {6, 5, 9}, {1, 2, 1},
          {1, 1, 1}, {0, 1, 0}};
}

std::shared_ptr<DeviceCall> Find(const ConvolutionSpec& spec, unsigned unaligned = 0, std::size_t ample = 0) {
  std::shared_ptr<DeviceCall> call;
  const std::string error = FindConvolution(nullptr, spec, {0, unaligned, kRoom, ample}, &call);
  if (!error.empty()) std::printf("%s\n", error.c_str());
  return call;
}

void Run(const char* library) {
  std::printf("loaded: %s\n", LoadCudnn({library}).c_str());
  void* fake = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  const auto live = reinterpret_cast<int (*)()>(dlsym(fake, "fake_live"));
  executed = reinterpret_cast<int (*)()>(dlsym(fake, "fake_executed"));
  const auto executions = reinterpret_cast<int (*)()>(dlsym(fake, "fake_executions"));
  const auto stream = reinterpret_cast<void* (*)()>(dlsym(fake, "fake_stream"));
  const auto refuse = reinterpret_cast<void (*)(int)>(dlsym(fake, "fake_refuse"));
  const auto note = reinterpret_cast<void (*)(int, int)>(dlsym(fake, "fake_note"));
  const auto forget_notes = reinterpret_cast<void (*)()>(dlsym(fake, "fake_forget_notes"));
  const auto needs = reinterpret_cast<void (*)(int, std::int64_t)>(dlsym(fake, "fake_workspace"));
  const auto pointer = reinterpret_cast<void* (*)(int)>(dlsym(fake, "fake_pointer"));
  const auto tensor = reinterpret_cast<std::int64_t (*)(int, int, int)>(dlsym(fake, "fake_tensor"));
  const auto attribute = reinterpret_cast<std::int64_t (*)(int, int)>(dlsym(fake, "fake_convolution"));
  char memory[3];
  void* arguments[] = {&memory[0], &memory[1], &memory[2]};

  const char* const roles[] = {"image", "filter", "result"};
  const auto print_tensors = [&](int rank) {
    for (int role = 0; role < 3; ++role) {
      std::printf("%s:", roles[role]);
      for (int i = 0; i < rank; ++i) std::printf(" %d", static_cast<int>(tensor(role, 902, i)));
      std::printf(" at");
      for (int i = 0; i < rank; ++i) std::printf(" %d", static_cast<int>(tensor(role, 903, i)));
      std::printf(", aligned to %d\n", static_cast<int>(tensor(role, 900, 0)));
    }
  };
  const auto print_convolution = [&](int axes) {
    for (int name = 102; name < 106; ++name) {
      for (int i = 0; i < axes; ++i) std::printf("%s%d", i == 0 ? "" : " x ", static_cast<int>(attribute(name, i)));
      std::printf(name < 105 ? ", " : " along %d axes\n", static_cast<int>(attribute(106, 0)));
    }
  };
  Find(Spec(4, ConvolutionPass::kFilterGradient), /*unaligned=*/2);
  print_tensors(4);
  print_convolution(2);
  Find(OfVolumes());
  print_tensors(5);
  print_convolution(3);
  const auto refused = [](const ConvolutionSpec& spec) {
    try {
      std::printf("%d arguments\n", MakeCall(spec)->arguments());
    } catch (const std::invalid_argument& error) {
      std::printf("refused: %s\n", error.what());
    }
  };
  ConvolutionSpec spec = OfVolumes();
  refused(spec);
  spec.padding.pop_back();
  refused(spec);
  refused({ConvolutionPass::kForward, tensorflow::DT_FLOAT, 2, 8, 16, 1, {7}, {2}, {6}, {1}, {1}, {0}});
  spec = OfVolumes();
  spec.groups = 3;
  refused(spec);
  for (const auto pass : {ConvolutionPass::kForward, ConvolutionPass::kInputGradient,
                          ConvolutionPass::kFilterGradient}) {
    Find(Spec(4, pass))->Run(reinterpret_cast<CUstream>(kStream), arguments, nullptr, false);
    std::printf("arguments of pass %d:", static_cast<int>(pass));
    for (int role = 0; role < 3; ++role) std::printf(" %d", static_cast<int>(static_cast<char*>(pointer(role)) - memory));
    std::printf("%s\n", stream() == kStream ? "" : ", in another stream");
  }

  const auto operations = reinterpret_cast<const char* (*)()>(dlsym(fake, "fake_operations"));
  const auto forget_operations = reinterpret_cast<void (*)()>(dlsym(fake, "fake_forget_operations"));
  char more[5];
  void* five[] = {&more[0], &more[1], &more[2], &more[3], &more[4]};
  for (const bool addend : {false, true}) {
    ConvolutionSpec fused = Spec(4, ConvolutionPass::kForward, tensorflow::DT_HALF);
    fused.bias = true;
    fused.addend = addend;
    if (addend) fused.activation = Activation::kRelu;
    forget_operations();
    refused(fused);
    const std::shared_ptr<DeviceCall> call = Find(fused, /*unaligned=*/4);
    call->Run(nullptr, five, nullptr, false);
    std::printf("%sbias:", operations());
    for (const int name : {902, 903}) {
      for (int i = 0; i < 4; ++i) std::printf(" %d", static_cast<int>(tensor(3, name, i)));
    }
    std::printf(", aligned to %d; type %d, on the way %d; arguments:", static_cast<int>(tensor(3, 900, 0)),
                static_cast<int>(tensor(3, 901, 0)), static_cast<int>(tensor(5, 901, 0)));
    for (int number = 0; number < (addend ? 5 : 4); ++number) {
      std::printf(" %d", static_cast<int>(static_cast<char*>(pointer(number)) - more));
    }
    std::printf("\n");
    fused.pass = ConvolutionPass::kInputGradient;
    refused(fused);
    fused = Spec(4, ConvolutionPass::kForward);
    fused.addend = addend;
    fused.activation = addend ? Activation::kNone : Activation::kRelu;
    refused(fused);
  }
  spec = Spec(4, ConvolutionPass::kForward);
  spec.bias = true;
  spec.activation = Activation::kGelu;
  refused(spec);

  const auto chosen = [&](const char* title, std::int64_t n, int type) {
    const std::shared_ptr<DeviceCall> call = Find(Spec(n, ConvolutionPass::kForward, type));
    if (call == nullptr) return;
    call->Run(nullptr, arguments, nullptr, false);
    std::printf("%s: %d with %zu bytes\n", title, executed(), call->workspace_bytes());
  };
  chosen("the first one with a kernel", 10, tensorflow::DT_FLOAT);
  note(1, 4);
  chosen("the first deterministic one", 11, tensorflow::DT_FLOAT);
  note(2, 1);
  chosen("not one of fewer bits", 12, tensorflow::DT_FLOAT);
  chosen("which halves do not mind", 12, tensorflow::DT_HALF);
  note(3, 0);
  chosen("one that takes TF32", 13, tensorflow::DT_FLOAT);
  tf32 = false;
  chosen("none of that", 13, tensorflow::DT_FLOAT);
  tf32 = true;
  forget_notes();
  for (int i = 1; i < 5; ++i) needs(i, 5000 - 1000 * (i % 4));
  chosen("where all need more than there is, the least", 14, tensorflow::DT_FLOAT);
  needs(2, kRoom);
  chosen("one that fits", 15, tensorflow::DT_FLOAT);
  for (int i = 1; i < 5; ++i) note(i, 4);
  chosen("none", 16, tensorflow::DT_FLOAT);
  forget_notes();
  for (int i = 1; i < 5; ++i) note(i, 9);
  chosen("one for anything", 21, tensorflow::DT_HALF);
  spec = Spec(21, ConvolutionPass::kForward, tensorflow::DT_HALF);
  spec.bias = true;
  Find(spec);
  forget_notes();
  chosen("a type that there is none of", 16, tensorflow::DT_INT32);
  for (int i = 1; i < 5; ++i) needs(i, 100 * i);

  const int before = live();
  const std::shared_ptr<DeviceCall> first = Find(Spec(17, ConvolutionPass::kForward));
  const int each = live() - before;
  for (int i = 0; i < 3; ++i) first->Run(nullptr, arguments, nullptr, true);
  std::printf("runs: %d more live\n", live() - before - each);
  std::printf("found again: %d\n", first == Find(Spec(17, ConvolutionPass::kForward)));
  for (int n = 100; n < 1000; ++n) Find(Spec(n, ConvolutionPass::kForward));
  const int many = live();
  for (int n = 1000; n < 2000; ++n) Find(Spec(n, ConvolutionPass::kForward));
  std::printf("of many batches: %s, then %d more\n", many > 400 * each ? "some" : "none", live() - many);
  std::printf("one that is held runs: \"%s\"\n", first->Run(nullptr, arguments, nullptr, true).c_str());

  deterministic = false;
  const std::shared_ptr<DeviceCall> tried = Find(Spec(18, ConvolutionPass::kForward));
  std::printf("until it is settled: %zu bytes\n", tried->workspace_bytes());
  for (const int count : {1, 4}) {
    refuse(count);
    std::printf("%d refused: \"%s\"\n", count, tried->Run(nullptr, arguments, nullptr, false).c_str());
  }
  for (const bool trial : {false, true, true}) {
    const int so_far = executions();
    tried->Run(nullptr, arguments, nullptr, trial);
    std::printf("%s: %s, %s\n", trial ? "a trial" : "no trial", executions() - so_far > 1 ? "many" : "one",
                tried->settled() ? "settled" : "open");
  }

  for (const std::int64_t touched : {std::int64_t{1} << 20, std::int64_t{3} << 30}) {
    std::printf("of %lld bytes: %zu, ample: %zu\n", static_cast<long long>(touched), CallWorkspaceBytes(touched),
                AmpleWorkspaceBytes(touched));
  }
  needs(1, 4 * kRoom);
  needs(2, 6 * kRoom);
  for (const float slower : {1.05F, 1.5F}) {
    for (const std::size_t ample : {std::size_t{0}, 5 * kRoom}) {
      times[3] = times[4] = slower;
      const std::shared_ptr<DeviceCall> call =
          Find(Spec(slower > 1.1F ? 20 : 19, ConvolutionPass::kForward), 0, ample);
      call->Run(nullptr, arguments, nullptr, true);
      std::printf("where others take %.2f times as long, %zu of ample memory: %zu bytes\n", slower, ample,
                  call->workspace_bytes());
    }
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
    made.EventElapsedTime = [](float* milliseconds, CUevent, CUevent) { return *milliseconds = times[executed()], 0; };
    made.EventDestroy = [](CUevent) { return 0; };
    return made;
  }();
  return driver;
}

}  // namespace tf_stitch

int main(int, char** arguments) { tf_stitch::Run(arguments[1]); }
