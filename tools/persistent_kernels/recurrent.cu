// Two LSTM layers of 256 units as one persistent kernel: weights stay in registers for all steps, and blocks hand each
// other their parts of the states. Layer 2 computes step t - 1 beside layer 1's step t, so all steps are one chain of
// rounds. See recurrent.py, which draws the inputs, compares with float64, and prints what this measures.
//
//     recurrent DIRECTORY check|time VARIANT...

#include <cstring>

#include "host.cuh"
#include "recurrent_states.cuh"
#include "recurrent_words.cuh"

struct Variant {
  std::string name;
  void (*kernel)(Arguments);
  Method method;
  int sharers, rows;
  size_t shared;
};

template <Arithmetic A, Method M, int SHARERS, int ROWS>
Variant variant() {
  const char* arithmetics[] = {"float32", "tf32", "bfloat16"};
  const char* methods[] = {"grid", "group", "packets", "barrier", "async", "launches"};
  std::string name = std::string(arithmetics[A]) + ":" + methods[M] + ":" + std::to_string(SHARERS) + "x" +
                     std::to_string(BATCH / ROWS);
  return {name, recurrent<A, M, SHARERS, ROWS>, M, SHARERS, ROWS, sizeof(Shared<A, SHARERS, ROWS>)};
}

template <Arithmetic A, bool TOGETHER>
Variant words_variant() {
  const char* names[] = {"float32", "tf32", "bfloat16"};
  const char* method = TOGETHER ? ":words_together:32x4" : ":words:32x4";
  return {std::string(names[A]) + method, recurrent_words<A, TOGETHER>, WORDS, WordShape<A>::SHARERS,
          WordShape<A>::ROWS, sizeof(WordShared<A>)};
}

std::vector<Variant> variants() {
  return {
      words_variant<FLOAT, true>(), words_variant<FLOAT, false>(), words_variant<TF32, true>(),
      words_variant<TF32, false>(),  words_variant<BF16, true>(),   words_variant<BF16, false>(),
      variant<FLOAT, LAUNCHES, 16, 4>(), variant<FLOAT, GRID, 16, 4>(),    variant<FLOAT, GROUP, 16, 4>(),
      variant<FLOAT, PACKETS, 16, 4>(),  variant<FLOAT, BARRIER, 16, 4>(), variant<FLOAT, ASYNC, 16, 4>(),
      variant<TF32, LAUNCHES, 16, 4>(),  variant<TF32, GRID, 16, 4>(),     variant<TF32, GROUP, 16, 4>(),
      variant<TF32, PACKETS, 16, 4>(),   variant<TF32, PACKETS, 32, 8>(),  variant<TF32, BARRIER, 16, 4>(),
      variant<TF32, ASYNC, 16, 4>(),     variant<TF32, ASYNC, 16, 8>(),    variant<BF16, LAUNCHES, 16, 4>(),
      variant<BF16, PACKETS, 16, 4>(),   variant<BF16, ASYNC, 16, 4>(),    variant<BF16, ASYNC, 16, 8>(),
      variant<BF16, ASYNC, 8, 4>(),      variant<BF16, ASYNC, 8, 2>(),     variant<BF16, BARRIER, 8, 4>(),
  };
}

// Launches of a variant: its memory, and a graph where each round is a launch.
class Runner {
 public:
  Runner(const Variant& v, const std::string& directory, cudaStream_t stream) : variant_(v), stream_(stream) {
    auto inputs = read(directory + "/inputs.bin"), weights = read(directory + "/weights.bin");
    auto bias = read(directory + "/bias.bin");
    a_.inputs = device(inputs.size(), inputs.data());
    a_.weights = device(weights.size(), weights.data());
    a_.bias = device(bias.size(), bias.data());
    a_.steps = int(inputs.size() / (BATCH * GATES * WIDTH));
    a_.outputs = device<float>(outputs());
    a_.exchange = device<char>(4 << 20);
    a_.counters = device<unsigned>(1024);
    a_.cells = device<float>(size_t(grid()) * THREADS);
    a_.error = device<int>(1);
    a_.trace = device<unsigned>(PHASES);
    a_.turn = v.method == WORDS ? 2 : 0, a_.first = 0, a_.last = a_.steps;
    CHECK(cudaMemset(a_.outputs, 0xff, outputs() * 4));
    CHECK(cudaFuncSetAttribute(v.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(v.shared)));
    if (clusters() && v.sharers > 8)
      CHECK(cudaFuncSetAttribute(v.kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    if (v.method == LAUNCHES) capture();
  }

  void launch() {
    if (graph_) {
      CHECK(cudaGraphLaunch(graph_, stream_));
      return;
    }
    one();
    a_.turn += variant_.method == PACKETS ? a_.steps + 1 : std::min(a_.last + 1, a_.steps);
  }

  int most_clusters() {
    if (!clusters()) return -1;
    cudaLaunchAttribute attribute[1];
    cudaLaunchConfig_t config = configuration(attribute);
    int count = 0;
    CHECK(cudaOccupancyMaxActiveClusters(&count, variant_.kernel, &config));
    return count;
  }

  void finish() {
    CHECK(cudaStreamSynchronize(stream_));
    if (fetched(a_.error, 1)[0]) std::printf("%s: a wait did not end\n", variant_.name.c_str()), std::exit(2);
  }

  std::vector<float> result() const { return fetched(a_.outputs, outputs()); }
  std::vector<unsigned> trace() const { return fetched(a_.trace, PHASES); }
  int rounds() const { return a_.steps + 1; }

  // Launches of the first round alone, or of all.
  void only_begin(bool whether) { a_.last = whether ? 0 : a_.steps; }
  bool can_begin() const { return variant_.method == WORDS; }

 private:
  size_t outputs() const { return size_t(BATCH) * a_.steps * WIDTH; }
  bool clusters() const { return variant_.method == BARRIER || variant_.method == ASYNC; }
  int grid() const { return BATCH / variant_.rows * variant_.sharers; }

  cudaLaunchConfig_t configuration(cudaLaunchAttribute* attribute) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(grid());
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = variant_.shared;
    config.stream = stream_;
    config.attrs = attribute;
    config.numAttrs = 1;
    if (clusters()) {
      attribute->id = cudaLaunchAttributeClusterDimension;
      attribute->val.clusterDim.x = variant_.sharers;
      attribute->val.clusterDim.y = attribute->val.clusterDim.z = 1;
    } else if (variant_.method == LAUNCHES) {
      attribute->id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attribute->val.programmaticStreamSerializationAllowed = 1;
    } else {
      attribute->id = cudaLaunchAttributeCooperative;
      attribute->val.cooperative = 1;
    }
    return config;
  }

  void one() {
    cudaLaunchAttribute attribute[1];
    cudaLaunchConfig_t config = configuration(attribute);
    CHECK(cudaLaunchKernelEx(&config, variant_.kernel, a_));
  }

  void capture() {
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    for (int round = 0; round <= a_.steps; ++round) {
      a_.first = a_.last = round;
      one();
    }
    CHECK(cudaStreamEndCapture(stream_, &graph));
    CHECK(cudaGraphInstantiate(&graph_, graph, 0));
  }

  Variant variant_;
  cudaStream_t stream_;
  Arguments a_ = {};
  cudaGraphExec_t graph_ = nullptr;
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
  std::vector<Variant> chosen;
  for (int i = 3; i < argc; ++i)
    for (const auto& v : all)
      if (v.name == argv[i]) chosen.push_back(v);
  std::vector<Runner> runners;
  for (const auto& v : chosen) runners.emplace_back(v, directory, stream);

  if (!timed) {
    for (size_t i = 0; i < runners.size(); ++i) {
      runners[i].launch();
      runners[i].launch();
      runners[i].finish();
      const auto values = runners[i].result();
      write(directory + "/" + chosen[i].name + ".outputs", values.data(), values.size());
      cudaFuncAttributes attributes;
      CHECK(cudaFuncGetAttributes(&attributes, chosen[i].kernel));
      std::printf("%s registers %d spilled %zu clusters %d\n", chosen[i].name.c_str(), attributes.numRegs,
                  attributes.localSizeBytes, runners[i].most_clusters());
    }
    return 0;
  }
  constexpr int TURNS = 31, UNCOUNTED = 3, CALLS = 5;
  Timer timer(stream);
  auto call_us = [&](Runner& runner) {
    runner.launch();
    timer.begin();
    for (int call = 0; call < CALLS; ++call) runner.launch();
    const float us = timer.end();
    runner.finish();
    return us / CALLS;
  };
  std::vector<std::vector<float>> begins(runners.size()), times(runners.size());
  for (int turn = -UNCOUNTED; turn < TURNS; ++turn)
    for (size_t i = 0; i < runners.size(); ++i) {
      runners[i].only_begin(runners[i].can_begin());
      const float begin = runners[i].can_begin() ? call_us(runners[i]) : 0.0f;
      runners[i].only_begin(false);
      const float all_rounds = call_us(runners[i]);
      if (turn >= 0) begins[i].push_back(begin), times[i].push_back(all_rounds);
    }
  for (size_t i = 0; i < runners.size(); ++i) {
    print_times(chosen[i].name, times[i]);
    std::sort(begins[i].begin(), begins[i].end());
    std::printf(",%.2f", begins[i][begins[i].size() / 2]);
    for (auto cycles : runners[i].trace()) std::printf(",%.0f", double(int(cycles)) / runners[i].rounds());
    std::printf("\n");
  }
  return 0;
}
