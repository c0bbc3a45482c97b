// Feeds mutated words to what decodes them in the native op, under AddressSanitizer and UBSan: executables, modules and
// roles of loops. tools/fuzz/native_words.py builds it, and writes the corpus.
//
//     native_words CORPUS MUTANTS SEED      prints how many of each kind were taken and refused
//
// An executable that is taken runs on buffers of exactly the sizes that it was checked against, but for its kernels.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "loop/loop_roles.h"
#include "op/aot_module.h"
#include "op/element_types.h"
#include "op/executable.h"
#include "op/gemm.h"
#include "op/sha256.h"

namespace tf_stitch {

using Words = std::vector<std::int64_t>;

// The libraries, but for what they compute.
class AnyCall final : public LibraryCall {
 public:
  explicit AnyCall(int arguments) : arguments_(arguments) {}
  int arguments() const override { return arguments_; }
  std::string RunOnHost(void* const*, tsl::thread::ThreadPool*) const override { return ""; }
  std::string Prepare(CUcontext, const CallSite&, std::shared_ptr<DeviceCall>*) const override { return ""; }

 private:
  const int arguments_;
};

std::shared_ptr<const LibraryCall> MakeCall(const ConvolutionSpec& spec) {
  return std::make_shared<AnyCall>(3 + spec.bias + spec.addend);
}
std::shared_ptr<const LibraryCall> MakeCall(const AttentionSpec&) { return std::make_shared<AnyCall>(4); }
std::string FindGpuGemm(CUcontext, const GemmSpec&, const CallSite&, std::shared_ptr<DeviceCall>*) { return ""; }
std::string FindGpuFloat8Gemm(CUcontext, const Float8GemmSpec&, const CallSite&, std::shared_ptr<DeviceCall>*) {
  return "";
}

namespace {

constexpr std::int64_t kMostRun = 1 << 22;  // bytes of an executable, and rows of a matmul, that is run
constexpr unsigned kPatience = 20;          // seconds of one mutant
volatile char sink;

void TouchRow(const char* row, std::int64_t bytes, bool writes) {
  if (writes) {
    std::memset(const_cast<char*>(row), 1, bytes);
  } else {
    for (std::int64_t i = 0; i < bytes; ++i) sink = row[i];
  }
}

// Each row of each matrix.
void TouchMatrices(void* at, const MatrixLayout& stored, const GemmSpec& spec, std::int64_t rows, std::int64_t cols,
                   bool writes) {
  const std::int64_t item = ElementBytes(spec.type);
  if (stored.transposed) std::swap(rows, cols);
  for (std::int64_t i = 0; i < spec.batch; ++i) {
    const std::int64_t first = stored.offset + i / stored.group * stored.step + i % stored.group * stored.group_step;
    for (std::int64_t row = 0; row < rows; ++row) {
      TouchRow(static_cast<char*>(at) + (first + row * stored.stride) * item, cols * item, writes);
    }
  }
}

struct Case {
  enum Kind : std::int64_t { kExecutable, kModule, kRoles } kind;
  Extents extents;  // of an executable
  std::int64_t region = 0;
  Words key;          // of a module's executable, for which it is asked
  RoleLimits limits;  // of roles
  Words words;
};

struct Count {
  std::int64_t taken = 0, run = 0, refused = 0;
};

class Feeder {
 public:
  explicit Feeder(const Words& corpus) : words_(corpus) {
    while (at_ < words_.size()) cases_.push_back(Next());
  }

  void Run(std::int64_t mutants, std::uint64_t seed) {
    for (const Case& one : cases_) {  // as they are, they are right
      Count count;
      Feed(one, &count);
      if (count.refused != 0) throw std::runtime_error("the corpus is refused: " + said_);
    }
    std::mt19937_64 random(seed);
    for (std::int64_t i = 0; i < mutants; ++i) {
      Case one = cases_[random() % cases_.size()];
      Mutate(&one, &random);
      alarm(kPatience);
      Feed(one, &counts_[one.kind]);
    }
    alarm(0);
    const char* names[] = {"executables", "modules", "roles"};
    for (const auto& [kind, count] : counts_) {
      std::cout << names[kind] << ": " << count.taken + count.refused << " mutants, " << count.refused << " refused, "
                << count.run << " run\n";
    }
    std::cout << reasons_.size() << " reasons\n";
  }

 private:
  std::int64_t Word() { return words_.at(at_++); }
  Words Several() {
    Words several(Word());
    for (std::int64_t& word : several) word = Word();
    return several;
  }

  Extents NextExtents() {
    Extents extents;
    extents.on_gpu = Word() != 0;
    extents.inputs = Several();
    extents.variables = Several();
    extents.output_items = Several();
    return extents;
  }

  Case Next() {
    Case one{static_cast<Case::Kind>(Word())};
    if (one.kind == Case::kRoles) {
      int* numbers[] = {&one.limits.inputs.first, &one.limits.inputs.count, &one.limits.counts.first,
                        &one.limits.counts.count, &one.limits.num_outputs, &one.limits.num_results};
      for (int* number : numbers) *number = static_cast<int>(Word());
    } else {
      one.extents = NextExtents();
    }
    if (one.kind == Case::kModule) {
      one.region = Word();
      one.key = Several();
    }
    one.words = Several();
    return one;
  }

  static void Mutate(Case* one, std::mt19937_64* random) {
    Words& words = one->words;
    const auto any = [&](std::size_t below) { return below == 0 ? 0 : (*random)() % below; };
    static const std::int64_t kWords[] = {0, 1, -1, 2, 7, 64, 1 << 20, 1LL << 31, (1LL << 31) - 1, 1LL << 32, 1LL << 47,
                                          1LL << 48, 1LL << 62, (1LL << 62) + (1LL << 56), (1LL << 62) + 1,
                                          INT64_MAX, INT64_MIN};
    for (std::size_t times = 1 + any(3); times > 0 && !words.empty(); --times) {
      const std::size_t at = any(words.size());
      switch (any(8)) {
        case 0:
          words[at] = kWords[any(std::size(kWords))];
          break;
        case 1:
          words[at] = static_cast<std::int64_t>(static_cast<std::uint64_t>(words[at]) + any(5) - 2);
          break;
        case 2:
          words[at] ^= static_cast<std::int64_t>(std::uint64_t{1} << any(64));
          break;
        case 3:
          words[at] = words[any(words.size())];
          break;
        case 4:
          words.resize(at);
          break;
        case 5:
          words.erase(words.begin() + at, words.begin() + std::min(words.size(), at + 1 + any(4)));
          break;
        case 6:
          words.insert(words.begin() + at, words[any(words.size())]);
          break;
        default: {
          const Words part(words.begin() + at, words.begin() + std::min(words.size(), at + 1 + any(16)));
          words.insert(words.begin() + any(words.size()), part.begin(), part.end());
        }
      }
    }
    for (Words* sizes : {&one->extents.inputs, &one->extents.variables}) {
      if (any(16) == 0 && !sizes->empty()) (*sizes)[any(sizes->size())] = static_cast<std::int64_t>(any(4096));
    }
  }

  void Feed(const Case& one, Count* count) {
    said_ = one.kind == Case::kExecutable ? FeedExecutable(one.words, one.extents, count)
            : one.kind == Case::kModule   ? FeedModule(one, count)
                                          : FeedRoles(one);
    ++(said_.empty() ? count->taken : count->refused);
    if (reasons_.size() < 100000) ++reasons_[said_];
  }

  static std::string FeedExecutable(const Words& words, const Extents& extents, Count* count) {
    Executable executable;
    const std::string error = Decode(words, extents, &executable);
    if (error.empty()) count->run += RunSteps(executable, extents);
    return error;
  }

  // The digest is made anew, as who makes a module would: else nothing but the digest was tested.
  static std::string FeedModule(const Case& one, Count* count) {
    std::string bytes(reinterpret_cast<const char*>(one.words.data()), one.words.size() * sizeof(std::int64_t));
    std::int64_t head = 0;
    if (bytes.size() >= 24) std::memcpy(&head, bytes.data() + 16, sizeof(head));
    const bool whole = head >= 0 && head <= static_cast<std::int64_t>((bytes.size() - 24) / 8) && bytes.size() >= 24;
    const std::string digest = Sha256::Hex(Sha256::Of(bytes.data(), whole ? 24 + 8 * head : 0));
    std::shared_ptr<const AotModule> module;
    std::string error = AotModule::Parse(std::move(bytes), digest, &module);
    if (!error.empty()) return error;
    Words words, references;
    const AotModule::Device device{one.extents.on_gpu, one.extents.on_gpu ? 90 : 0};
    error = module->Words(one.region, device, one.key, &words, &references);
    if (!error.empty()) return error;
    Extents extents = one.extents;
    extents.references = &references;
    return FeedExecutable(words, extents, count);
  }

  static std::string FeedRoles(const Case& one) {
    LoopRoles roles;
    const std::string error = roles.Parse(one.words, one.limits, nullptr);
    if (!error.empty()) return error;
    std::vector<char> inputs(std::max(one.limits.inputs.first + one.limits.inputs.count,
                                      one.limits.counts.first + one.limits.counts.count));
    for (const auto* parts : {&roles.body, &roles.condition}) {
      for (const InputRole& role : *parts) {
        sink = inputs[role.input];
        if (role.kind == InputRole::Kind::kCarried) sink = roles.results[role.result].kept;
        if (role.row.numbered_by >= 0) sink = roles.body[role.row.numbered_by].row.backward;
      }
    }
    for (const OutputRole& role : roles.outputs) {
      sink = roles.results[role.result].kept;
      if (role.input >= 0) sink = inputs[role.input];
      if (role.row.numbered_by >= 0) sink = roles.body[role.row.numbered_by].row.backward;
    }
    return "";
  }

  // On buffers of malloc's, so that the sanitizer sees each byte beyond them. False for what is too large.
  static bool RunSteps(const Executable& executable, const Extents& extents) {
    if (executable.bytes > kMostRun) return false;
    std::map<Space, std::vector<std::vector<char>>> memory;
    const auto make = [&](Space space, const Words& sizes) {
      for (const std::int64_t bytes : sizes) memory[space].emplace_back(bytes);
    };
    make(Space::kInput, extents.inputs);
    make(Space::kVariable, extents.variables);
    make(Space::kArena, executable.arena);
    for (std::size_t i = 0; i < executable.outputs.size(); ++i) {
      std::int64_t bytes = extents.output_items[i];
      for (const std::int64_t dim : executable.outputs[i]) bytes *= dim;
      memory[Space::kOutput].emplace_back(bytes);
    }
    for (const StatePlan& plan : executable.state) {
      memory[Space::kFresh].emplace_back(plan.fresh ? extents.variables.at(plan.variable) : 0);
    }
    const auto at = [&](const Operand& operand) -> char* {
      if (operand.space == Space::kBarrier) {
        if (operand.index >= executable.barriers) throw std::runtime_error("a counter that is not there");
        return nullptr;
      }
      const bool arena = operand.space == Space::kArena;
      std::vector<char>& buffer = memory[operand.space].at(arena ? operand.segment : operand.index);
      if (arena && operand.index >= static_cast<std::int64_t>(buffer.size())) throw std::runtime_error("outside");
      return buffer.data() + (arena ? operand.index : 0);
    };
    if (extents.references != nullptr) {  // addresses from Python are made up
      for (const ModuleImage& module : executable.modules) {
        TouchRow(static_cast<const char*>(module.image), module.bytes, false);
      }
      for (const Step& step : executable.steps) {
        const auto* launch = std::get_if<GpuLaunch>(&step);
        if (launch != nullptr) TouchRow(launch->symbol, std::strlen(launch->symbol), false);
      }
    }
    for (std::size_t i = 0; i < executable.steps.size(); ++i) {
      for (const int before : executable.after[i]) {
        if (before < 0 || before >= static_cast<int>(i)) throw std::runtime_error("a step waits for a later one");
      }
      const Step& step = executable.steps[i];
      if (const auto* copy = std::get_if<Copy>(&step)) {
        TouchRow(at(copy->source), copy->bytes, false);
        TouchRow(at(copy->target), copy->bytes, true);
      } else if (const auto* call = std::get_if<LibraryStep>(&step)) {
        std::vector<void*> arguments;
        for (const Operand& operand : call->args) arguments.push_back(at(operand));
        call->call->RunOnHost(arguments.data(), nullptr);
      } else {
        const auto& args = std::holds_alternative<CpuLaunch>(step) ? std::get<CpuLaunch>(step).args
                                                                   : std::get<GpuLaunch>(step).args;
        for (const Operand& operand : args) at(operand);
      }
    }
    return true;
  }

  const Words& words_;
  std::size_t at_ = 0;
  std::vector<Case> cases_;
  std::string said_;
  std::map<Case::Kind, Count> counts_;
  std::map<std::string, std::int64_t> reasons_;
};

}  // namespace

bool RunHostGemm(const GemmSpec& spec, void* const* arguments, tsl::thread::ThreadPool*) {
  TouchMatrices(arguments[0], spec.a, spec, spec.m, spec.k, false);
  TouchMatrices(arguments[1], spec.b, spec, spec.k, spec.n, false);
  const std::int64_t item = ElementBytes(spec.type);
  if (spec.bias) TouchRow(static_cast<const char*>(arguments[2]), spec.n * item, false);
  if (spec.addend) {
    TouchRow(static_cast<const char*>(arguments[AddendArgument(spec)]), spec.batch * spec.m * spec.n * item, false);
  }
  TouchMatrices(arguments[Arguments(spec) - 1], spec.out, spec, spec.m, spec.n, true);
  return true;
}

}  // namespace tf_stitch

int main(int, char** argv) {
  std::ifstream file(argv[1], std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  tf_stitch::Words corpus(bytes.size() / sizeof(std::int64_t));
  std::memcpy(corpus.data(), bytes.data(), corpus.size() * sizeof(std::int64_t));
  try {
    tf_stitch::Feeder(corpus).Run(std::atoll(argv[2]), std::strtoull(argv[3], nullptr, 10));
  } catch (const std::exception& error) {
    std::cerr << "what was taken is wrong: " << error.what() << std::endl;
    return 1;
  }
}
