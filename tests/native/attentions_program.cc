// Prints what attentions ask of a cuDNN that only keeps books (its file is the argument), and what they leave in it.
#include <dlfcn.h>

#include <cstdio>
#include <memory>
#include <stdexcept>

#include "cuda/cudnn_attention.h"
#include "cuda/cudnn_handles.h"

bool deterministic = false;

namespace tsl {
bool OpDeterminismRequired() { return deterministic; }
}  // namespace tsl

namespace tf_stitch {
namespace {

constexpr int kBfloat = 14, kFloat32 = 1;
void* const kStream = reinterpret_cast<void*>(7);

// Two batches of three heads of 8 columns, 5 queries and 7 keys; matrices begin 16 elements into memory.
AttentionSpec Spec(AttentionPass pass, unsigned results, bool causal = false, int type = kBfloat) {
  AttentionSpec spec{pass, type, 2, 3, 1, 5, 7, 8, 0x3e800000, causal, results, {}};
  const bool gradient = pass == AttentionPass::kGradient;
  for (int i = 0; i < (gradient ? 8 : 4); ++i) {
    const bool by_keys = i == 1 || i == 2 || i == 6 || i == 7;
    const std::int64_t rows = by_keys ? 7 : 5;
    for (const std::int64_t number : {std::int64_t{16}, 24 * rows, std::int64_t{8}, std::int64_t{24}}) {
      spec.layouts.push_back(number);
    }
  }
  return spec;
}

std::shared_ptr<DeviceCall> Find(const AttentionSpec& spec, unsigned unaligned = 0) {
  std::shared_ptr<DeviceCall> call;
  const std::string error = FindAttention(nullptr, spec, {0, unaligned, 0, 0}, &call);
  if (!error.empty()) std::printf("%s\n", error.c_str());
  return call;
}

void Run(const char* library) {
  Find(Spec(AttentionPass::kForward, 3));
  std::printf("loaded: %s, version %zu\n", LoadCudnn({library}).c_str(), CudnnVersion());
  void* fake = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  const auto live = reinterpret_cast<int (*)()>(dlsym(fake, "fake_live"));
  const auto executed = reinterpret_cast<int (*)()>(dlsym(fake, "fake_executed"));
  const auto stream = reinterpret_cast<void* (*)()>(dlsym(fake, "fake_stream"));
  const auto refuse = reinterpret_cast<void (*)(int)>(dlsym(fake, "fake_refuse"));
  const auto needs = reinterpret_cast<void (*)(int, std::int64_t)>(dlsym(fake, "fake_workspace"));
  const auto pointer = reinterpret_cast<void* (*)(int)>(dlsym(fake, "fake_pointer"));
  const auto tensor = reinterpret_cast<std::int64_t (*)(int, int, int)>(dlsym(fake, "fake_tensor"));
  const auto value = reinterpret_cast<float (*)(int)>(dlsym(fake, "fake_value"));
  const auto operations = reinterpret_cast<const char* (*)()>(dlsym(fake, "fake_operations"));
  const auto forget = reinterpret_cast<void (*)()>(dlsym(fake, "fake_forget_operations"));
  const auto print_tensor = [&](int number) {
    std::printf("tensor %d:", number);
    for (int i = 0; i < 4; ++i) std::printf(" %d", static_cast<int>(tensor(number, 902, i)));
    std::printf(" at");
    for (int i = 0; i < 4; ++i) std::printf(" %d", static_cast<int>(tensor(number, 903, i)));
    std::printf(", type %d, inner %d, a number %d\n", static_cast<int>(tensor(number, 901, 0)),
                static_cast<int>(tensor(number, 907, 0)), static_cast<int>(tensor(number, 908, 0)));
  };
  needs(1, 100);

  char memory[9], scratch[8192];
  void* arguments[9];
  for (int i = 0; i < 9; ++i) arguments[i] = &memory[i];
  const auto print_pointers = [&](int count) {
    std::printf("pointers:");
    for (int number = 1; number <= count; ++number) {
      const auto* at = static_cast<char*>(pointer(number));
      if (at == nullptr) continue;
      if (at >= scratch && at < scratch + sizeof scratch) {
        std::printf(" %d in scratch at %d", number, static_cast<int>(at - scratch));
      } else if (at >= memory && at < memory + 64) {
        std::printf(" %d at %d", number, static_cast<int>(at - memory));
      } else {
        std::printf(" %d is %g", number, value(number));
      }
    }
    std::printf("\n");
  };
  const auto show = [&](const char* title, const AttentionSpec& spec, int tensors) {
    forget();
    const std::shared_ptr<DeviceCall> call = Find(spec);
    std::printf("%s: %zu bytes, %s\n%s", title, call->workspace_bytes(), call->settled() ? "settled" : "open",
                operations());
    const std::string error = call->Run(reinterpret_cast<CUstream>(kStream), arguments, scratch, true);
    std::printf("ran by %d%s \"%s\"\n", executed(), stream() == kStream ? "" : ", in another stream", error.c_str());
    print_pointers(tensors);
  };
  show("an attention", Spec(AttentionPass::kForward, 3), 15);
  for (int number : {1, 2, 3, 4, 5, 6}) print_tensor(number);
  show("the causal one", Spec(AttentionPass::kForward, 1, true), 15);
  AttentionSpec sharing = Spec(AttentionPass::kForward, 1);
  sharing.heads = 6;
  sharing.shared = 2;
  show("heads that share keys", sharing, 15);
  for (int number : {1, 2, 3, 4, 15, 16}) print_tensor(number);
  show("gradients", Spec(AttentionPass::kGradient, 7), 15);
  for (int number : {2, 3, 9, 10, 11, 12, 13, 14}) print_tensor(number);
  show("of values alone", Spec(AttentionPass::kGradient, 4, true), 15);
  deterministic = true;
  show("the same bits in each run", Spec(AttentionPass::kGradient, 7), 15);
  deterministic = false;

  const auto first = Find(Spec(AttentionPass::kForward, 3));
  const int before = live();
  std::printf("found again: %d, %d more live\n", Find(Spec(AttentionPass::kForward, 3)) == first, live() - before);
  refuse(1);
  std::printf("refused: \"%s\"\n", first->Run(nullptr, arguments, scratch, false).c_str());
  Find(Spec(AttentionPass::kForward, 3), /*unaligned=*/2);
  const auto refused = [](AttentionSpec spec, std::size_t layouts) {
    spec.layouts.resize(layouts);
    try {
      std::printf("%d arguments\n", MakeCall(spec)->arguments());
    } catch (const std::invalid_argument& error) {
      std::printf("refused: %s\n", error.what());
    }
  };
  refused(Spec(AttentionPass::kForward, 2), 16);
  refused(Spec(AttentionPass::kGradient, 7), 32);
  refused(Spec(AttentionPass::kForward, 4), 16);
  refused(Spec(AttentionPass::kForward, 3), 15);
  refused(Spec(AttentionPass::kForward, 3, false, kFloat32), 16);
  sharing.heads = 7;
  refused(sharing, 16);
  AttentionSpec gradients = Spec(AttentionPass::kGradient, 7);
  gradients.shared = 3;
  refused(gradients, 32);
}

}  // namespace
}  // namespace tf_stitch

int main(int, char** arguments) {
  tf_stitch::Run(arguments[1]);
  return 0;
}
