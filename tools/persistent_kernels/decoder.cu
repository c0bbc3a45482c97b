// A word of GPT-2 (6 layers of 768, batch 1) as a chain of matrix-vector products: as a launch for each of them, and as
// one persistent kernel whose blocks copy the weights that come next to a ring in shared memory while they wait for what
// other blocks compute. See decoder.py, which draws the weights, compares with float64, and prints what this measures.
//
//     decoder DIRECTORY check|time VARIANT...

#include <cstring>

#include "decoder_phases.cuh"
#include "host.cuh"

struct Variant {
  std::string name;
  void (*kernel)(Arguments);
  Method method;
  bool half, early;
  int words;   // of a launch
  int copies;  // of what is handed on
  int pause;
};

template <class T, Method M>
void add(std::vector<Variant>& all, const char* method) {
  const std::string name = std::string(sizeof(T) == 4 ? "float32:" : "bfloat16:") + method;
  auto with = [&](const char* form, bool early, int words, int copies = 1, int pause = 0) {
    all.push_back({name + form, decode<T, M>, M, sizeof(T) == 2, early, words, copies, pause});
  };
  with(M == LAUNCHES ? "" : ":word", true, 1);
  if (M != LAUNCHES) with(":loop", true, CACHE);
  if (M == GRID) with("_late:word", false, 1);
  if (M == PACKETS) with("_late:loop", false, CACHE);
  if (M == PACKETS) with("_4:loop", true, CACHE, 4), with("_12:loop", true, CACHE, 12), with("_4:word", true, 1, 4);
  if (M == PACKETS) with("_4_pause:loop", true, CACHE, 4, 40), with("_pause:loop", true, CACHE, 1, 40);
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  add<float, LAUNCHES>(all, "launches");
  add<float, GRID>(all, "grid");
  add<float, COUNTERS>(all, "counters");
  add<float, PACKETS>(all, "packets");
  add<__nv_bfloat16, LAUNCHES>(all, "launches");
  add<__nv_bfloat16, GRID>(all, "grid");
  add<__nv_bfloat16, COUNTERS>(all, "counters");
  add<__nv_bfloat16, PACKETS>(all, "packets");
  return all;
}

void* device_as(const std::vector<float>& values, bool half) {
  if (!half) return device(values.size(), values.data());
  std::vector<__nv_bfloat16> halves(values.size());
  for (size_t i = 0; i < values.size(); ++i) halves[i] = __float2bfloat16_rn(values[i]);
  return device(halves.size(), halves.data());
}

// Weights of both types, which all variants read.
struct Weights {
  explicit Weights(const std::string& directory) {
    auto weights = read(directory + "/weights.bin"), given = read(directory + "/extras.bin");
    cache = read(directory + "/cache.bin");
    for (bool half : {false, true}) of_type[half] = device_as(weights, half);
    extras = device(given.size(), given.data());
  }
  void* of_type[2];
  float* extras;
  std::vector<float> cache;
};

class Runner {
 public:
  Runner(const Variant& v, const Weights& weights, cudaStream_t stream) : variant_(v), stream_(stream) {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    blocks_ = properties.multiProcessorCount;
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, v.kernel));
    most_bytes_ = int(properties.sharedMemPerBlockOptin - attributes.sharedSizeBytes) / 128 * 128;
    CHECK(cudaFuncSetAttribute(v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most_bytes_));
    registers_ = attributes.numRegs, spilled_ = attributes.localSizeBytes;
    a_.weights = weights.of_type[v.half];
    a_.extras = weights.extras;
    a_.cache = device_as(weights.cache, v.half);
    a_.vectors = device<char>(size_t(v.copies) * PHASES * 4 * WIDTH * 8);
    a_.copies = v.copies, a_.pause = v.pause;
    a_.best = device<char>(4096);
    a_.logits = device<float>(VOCABULARY);
    a_.residual = device<float>(2 * WIDTH);
    a_.tokens = device<int>(CACHE);
    a_.counters = device<unsigned>(32 * PHASES);
    a_.error = device<int>(1);
    a_.trace = device<unsigned>(size_t(blocks_) * KINDS * PARTS);
    a_.early = v.early;
    a_.bytes = most_bytes_;
    a_.first = 0, a_.last = PHASES;
  }

  // Words at `position` and behind, enqueued.
  void words(int position, int count) {
    if (variant_.method == LAUNCHES) {
      if (graph_ && count == CACHE) {
        CHECK(cudaGraphLaunch(graph_, stream_));
        return;
      }
      for (int i = 0; i < count; ++i)
        for (int phase = 0; phase < PHASES; ++phase) {
          const bool attention = kind_of(phase) == ATTENTION;
          a_.position = position + i, a_.words = 1, a_.first = phase, a_.last = phase + 1;
          a_.bytes = attention ? (variant_.half ? Layout<__nv_bfloat16>::CACHED : Layout<float>::CACHED)
                     : kind_of(phase) == LOGITS ? most_bytes_ / 2
                                                : 73728 + 1024;
          launch(attention ? HEADS * (phase / 5 + 1) : blocks_, a_.bytes);
        }
      return;
    }
    const int step = std::min(variant_.words, count);
    for (int i = 0; i < count; i += step) {
      a_.position = position + i, a_.words = step;
      launch(blocks_, most_bytes_);
      a_.turn += step;
    }
  }

  void capture() {
    if (variant_.method != LAUNCHES) return;
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    words(0, CACHE);
    CHECK(cudaStreamEndCapture(stream_, &graph));
    CHECK(cudaGraphInstantiate(&graph_, graph, 0));
  }

  void finish() {
    CHECK(cudaStreamSynchronize(stream_));
    if (fetched(a_.error, 1)[0]) std::printf("%s: a wait did not end\n", variant_.name.c_str()), std::exit(2);
  }

  void write_result(const std::string& directory) {
    const std::string path = directory + "/" + variant_.name;
    write(path + ".logits", fetched(a_.logits, VOCABULARY).data(), VOCABULARY);
    write(path + ".tokens", fetched(a_.tokens, CACHE).data(), CACHE);
  }

  // Cycles of a word in each part of each kind of phase.
  std::vector<double> trace(int block) {
    const auto values = fetched(a_.trace + size_t(block) * KINDS * PARTS, KINDS * PARTS);
    std::vector<double> cycles;
    for (auto v : values) cycles.push_back(double(v) / std::max(variant_.words, 1));
    return cycles;
  }

  int registers() const { return registers_; }
  size_t spilled() const { return spilled_; }

 private:
  void launch(int blocks, int bytes) {
    cudaLaunchAttribute attribute[1];
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = bytes;
    config.stream = stream_;
    config.attrs = attribute;
    config.numAttrs = 1;
    if (variant_.method == LAUNCHES) {
      attribute->id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attribute->val.programmaticStreamSerializationAllowed = 1;
    } else {
      attribute->id = cudaLaunchAttributeCooperative;
      attribute->val.cooperative = 1;
    }
    CHECK(cudaLaunchKernelEx(&config, variant_.kernel, a_));
  }

  Variant variant_;
  cudaStream_t stream_;
  Arguments a_ = {};
  cudaGraphExec_t graph_ = nullptr;
  int blocks_, most_bytes_, registers_;
  size_t spilled_;
};

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  auto all = variants();
  if (argc < 4) {
    for (const auto& v : all) std::printf("%s\n", v.name.c_str());
    return 0;
  }
  const std::string directory = argv[1];
  const bool timed = !std::strcmp(argv[2], "time");
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  const Weights weights(directory);
  std::vector<Variant> chosen;
  for (int i = 3; i < argc; ++i)
    for (const auto& v : all)
      if (v.name == argv[i]) chosen.push_back(v);
  std::vector<Runner> runners;
  for (const auto& v : chosen) runners.emplace_back(v, weights, stream);

  if (!timed) {
    for (size_t i = 0; i < runners.size(); ++i) {
      runners[i].words(CACHE - 4, 4);
      runners[i].finish();
      runners[i].write_result(directory);
      std::printf("%s registers %d spilled %zu\n", chosen[i].name.c_str(), runners[i].registers(), runners[i].spilled());
    }
    return 0;
  }
  constexpr int TURNS = 15, UNCOUNTED = 2;
  Timer timer(stream);
  for (auto& runner : runners) runner.capture();
  std::vector<std::vector<float>> times(runners.size());
  for (int turn = -UNCOUNTED; turn < TURNS; ++turn)
    for (size_t i = 0; i < runners.size(); ++i) {
      timer.begin();
      runners[i].words(0, CACHE);
      const float us = timer.end();
      runners[i].finish();
      if (turn >= 0) times[i].push_back(us / CACHE);
    }
  for (size_t i = 0; i < runners.size(); ++i) {
    print_times(chosen[i].name, times[i]);
    std::printf(",0");  // what a launch takes without its words is not measured
    for (int block : {30, 100})  // one with an attention, one without
      for (double cycles : runners[i].trace(block)) std::printf(",%.0f", cycles);
    std::printf("\n");
  }
  return 0;
}
