// TensorFlow's pluggable graph optimizer (its public C API), handing every graph to Python.
// No TensorFlow symbol is linked: the few functions needed are looked up when TensorFlow loads this library.
#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "op/callback_gate.h"
#include "tensorflow/c/experimental/grappler/grappler.h"
#include "tensorflow/core/grappler/grappler_item.h"

#define TFS_EXPORT extern "C" __attribute__((visibility("default")))

namespace tf_stitch {

// Whether SIGINT has come since the last call (signal_watch.cc).
bool TakeInterrupt();

}  // namespace tf_stitch

namespace {

// What the callback returns, beyond the number of its call. Anything else: Python raised where nothing catches it, as at
// the callback's first line. ctypes then leaves what lay on the stack, which may be what an earlier call returned.
enum : int {
  kRewritten = 1,    // it has called tfs_hook_result
  kLeftAlone = 2,
  kInterrupted = 3,  // Ctrl-C ended it, in the main thread
  kCodes = 4,        // numbers of calls are multiples
};

int NextCall() {
  static std::atomic<unsigned> calls{0};
  return static_cast<int>(++calls % (1U << 28)) * kCodes;
}

// `feeds`: names of nodes, each followed by a newline.
typedef int (*tfs_optimize_fn)(const void* graph, std::int64_t bytes, const void* item, const char* graph_id,
                               const char* feeds, const char* device_type, int call, void* result);

struct Callback {
  tfs_optimize_fn optimize;
};

constexpr auto kExitPatience = std::chrono::seconds(5);

tf_stitch::CallbackGate<Callback>& Gate() {
  static auto* gate = new tf_stitch::CallbackGate<Callback>;
  return *gate;
}

std::string& NextDeviceType() {
  static auto* type = new std::string;
  return *type;
}

using SetStatusFn = void (*)(TF_Status*, TF_Code, const char*);

SetStatusFn SetStatus() {
  static const auto function = [] {
    void* framework = dlopen("libtensorflow_framework.so.2", RTLD_NOLOAD | RTLD_LAZY);
    void* symbol = framework != nullptr ? dlsym(framework, "TF_SetStatus") : nullptr;
    if (symbol == nullptr) symbol = dlsym(RTLD_DEFAULT, "TF_SetStatus");
    return reinterpret_cast<SetStatusFn>(symbol);
  }();
  return function;
}

void FreeBuffer(void* data, std::size_t) { std::free(data); }

void Return(const std::string& graph, TF_Buffer* out) {
  void* data = std::malloc(graph.size());
  std::memcpy(data, graph.data(), graph.size());
  out->data = data;
  out->length = graph.size();
  out->data_deallocator = FreeBuffer;
}

// The item behind the C API's opaque pointer. Its id and feeds are not in that API; this library is built for one
// TensorFlow version, and never loaded into another, so the header's layout is the real one.
const tensorflow::grappler::GrapplerItem& Item(const TF_GrapplerItem* item) {
  return *reinterpret_cast<const tensorflow::grappler::GrapplerItem*>(item);
}

// Of a tensor "node:0" the node: TensorFlow optimizes no graph that is fed another output.
std::string Feeds(const tensorflow::grappler::GrapplerItem& item) {
  std::string names;
  for (const auto& feed : item.feed) names += feed.first.substr(0, feed.first.find(':')) + "\n";
  return names;
}

void Optimize(const char* device_type, const TF_Buffer* in, const TF_GrapplerItem* item, TF_Buffer* out,
              TF_Status* status) {
  std::string result;
  int done = kLeftAlone;
  const int call = NextCall();
  {
    const tf_stitch::CallbackGate<Callback>::Entry entry(&Gate());
    if (entry.get() != nullptr) {
      done = entry.get()->optimize(in->data, static_cast<std::int64_t>(in->length), item, Item(item).id.c_str(),
                                   Feeds(Item(item)).c_str(), device_type, call, &result) - call;
    }
  }
  if (syscall(SYS_gettid) == getpid()) {  // the main thread, where Python handles signals
    const bool pressed = tf_stitch::TakeInterrupt();
    const bool lost = done != kRewritten && done != kLeftAlone && done != kInterrupted;
    if (done == kInterrupted || (lost && pressed)) raise(SIGINT);  // Python handles it again, when it is back there
  }
  if (done == kRewritten) {
    Return(result, out);
  } else if (SetStatus() != nullptr) {
    SetStatus()(status, TF_ABORTED, "tf_stitch: nothing to do");  // TensorFlow then keeps its graph
  } else {
    Return(std::string(static_cast<const char*>(in->data), in->length), out);
  }
}

void OptimizeCpu(void*, const TF_Buffer* in, const TF_GrapplerItem* item, TF_Buffer* out, TF_Status* status) {
  Optimize("CPU", in, item, out, status);
}

void OptimizeGpu(void*, const TF_Buffer* in, const TF_GrapplerItem* item, TF_Buffer* out, TF_Status* status) {
  Optimize("GPU", in, item, out, status);
}

// TensorFlow wants an object from create_func; ours has no state.
void* Create() { return new char; }
void Destroy(void* optimizer) { delete static_cast<char*>(optimizer); }

}  // namespace

// Null keeps every thread out of Python from now on.
TFS_EXPORT void tfs_hook_set_callback(tfs_optimize_fn optimize) {
  if (optimize == nullptr) {
    Gate().Clear(kExitPatience);
  } else {
    Gate().Set({optimize});
  }
}

TFS_EXPORT void tfs_hook_result(void* result, const char* graph, std::int64_t bytes) {
  static_cast<std::string*>(result)->assign(graph, static_cast<std::size_t>(bytes));
}

// "CPU" or "GPU": what the next load of this library registers for. TensorFlow aborts when one type comes twice.
TFS_EXPORT void tfs_hook_next_device_type(const char* type) { NextDeviceType() = type; }

TFS_EXPORT void TF_InitGraph(TP_OptimizerRegistrationParams* params, TF_Status*) {
  static const std::string cpu = "CPU", gpu = "GPU";
  const bool on_gpu = NextDeviceType() == gpu;
  params->struct_size = TP_OPTIMIZER_REGISTRATION_PARAMS_STRUCT_SIZE;
  params->optimizer_configs->struct_size = TP_OPTIMIZER_CONFIGS_STRUCT_SIZE;
  params->optimizer->struct_size = TP_OPTIMIZER_STRUCT_SIZE;
  params->device_type = (on_gpu ? gpu : cpu).c_str();
  params->optimizer->create_func = Create;
  params->optimizer->optimize_func = on_gpu ? OptimizeGpu : OptimizeCpu;
  params->optimizer->destroy_func = Destroy;
}
