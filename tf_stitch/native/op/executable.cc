#include "op/executable.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "op/word_reader.h"

namespace tf_stitch {
namespace {

using Words = std::vector<std::int64_t>;

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 48;
constexpr std::int64_t kMaxRank = 254;
constexpr std::int64_t kMaxBarriers = 1 << 20;

template <typename Pointer>
constexpr std::int64_t kKindOf = -1;
template <>
constexpr std::int64_t kKindOf<tfs_cpu_kernel> = kFunction;
template <>
constexpr std::int64_t kKindOf<const char*> = kName;
template <>
constexpr std::int64_t kKindOf<const void*> = kImage;

class Decoder : public WordReader {
 public:
  Decoder(const Words& words, const Extents& extents, Executable* executable)
      : WordReader(words), extents_(extents), executable_(*executable) {}

  void Run() {
    Require(Next("abi") == kAbi, "unknown abi");
    Arena();
    Outputs();
    State();
    Updates();
    Modules();
    const std::int64_t steps = Count("steps");
    for (std::int64_t i = 0; i < steps; ++i) executable_.steps.push_back(NextStep());
    const bool chain = AtEnd();
    for (std::int64_t i = 0; i < steps; ++i) {
      std::vector<int>& before = executable_.after.emplace_back();
      if (chain && i > 0) before.push_back(static_cast<int>(i) - 1);
      const std::int64_t edges = chain ? 0 : Count("steps to wait for");
      for (std::int64_t k = 0; k < edges; ++k) before.push_back(static_cast<int>(Ranged("step", 0, i - 1)));
    }
    Require(AtEnd(), "words are left over");
    executable_.bytes = arena_bytes_;
    for (const Words* sizes : {&extents_.inputs, &extents_.variables, &std::as_const(output_bytes_)}) {
      for (const std::int64_t bytes : *sizes) {
        Require(!__builtin_add_overflow(executable_.bytes, bytes, &executable_.bytes), "too many bytes altogether");
      }
    }
  }

  // These, with WordReader's, are what the records are read by.
  template <typename Pointer>
  Pointer NextPointer(const char* what) {
    RequireReference(kKindOf<Pointer>, what);
    const std::int64_t value = Next(what);
    Require(value != 0, std::string(what) + " is null");
    return reinterpret_cast<Pointer>(value);
  }

  std::vector<Operand> Operands() {
    const std::int64_t count = Count("arguments");
    std::vector<Operand> operands;
    for (std::int64_t i = 0; i < count; ++i) operands.push_back(NextOperand());
    return operands;
  }

  std::vector<std::int64_t> Numbers(const char* what, std::int64_t low = std::numeric_limits<std::int64_t>::min(),
                                    std::int64_t high = std::numeric_limits<std::int64_t>::max()) {
    const std::int64_t count = Count(what);
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < count; ++i) numbers.push_back(Ranged(what, low, high));
    return numbers;
  }

  Operand NextOperand() {
    const auto space = static_cast<Space>(Ranged("space", 0, 5));
    const std::int64_t index = Ranged("operand", 0, LastIndex(space));
    if (space == Space::kBarrier) executable_.barriers = std::max(executable_.barriers, index + 1);
    Require(space != Space::kFresh || executable_.state[index].fresh, "a state entry in place has no fresh buffer");
    return space == Space::kArena ? InArena(index) : Operand{space, index};
  }

 private:
  // The word that comes next, if it comes from a module, stands for something of this kind; which number it has.
  std::int64_t RequireReference(std::int64_t kind, const char* what) const {
    if (extents_.references == nullptr || position() >= extents_.references->size()) return 0;
    const std::int64_t word = (*extents_.references)[position()];
    Require(word >= kReference && (word - kReference) / kReferenceKind == kind, std::string(what) + " is of no kernel");
    return (word - kReference) % kReferenceKind;
  }

  void Arena() {
    const std::int64_t count = Count("segments of the arena");
    for (std::int64_t i = 0; i < count; ++i) {
      executable_.arena.push_back(Ranged("segment bytes", 1, kMaxBytes - arena_bytes_));
      arena_bytes_ += executable_.arena.back();
      segment_ends_.push_back(arena_bytes_);
    }
  }

  void Outputs() {
    const std::int64_t count = Count("outputs");
    Require(count == static_cast<std::int64_t>(extents_.output_items.size()), "wrong number of outputs");
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<std::int64_t> dims;
      std::int64_t bytes = extents_.output_items[i];
      const std::int64_t rank = Ranged("output rank", 0, kMaxRank);
      for (std::int64_t axis = 0; axis < rank; ++axis) {
        dims.push_back(Ranged("output dimension", 0, kMaxBytes));
        Require(!__builtin_mul_overflow(bytes, dims.back(), &bytes) && bytes <= kMaxBytes, "output too large");
      }
      output_bytes_.push_back(bytes);
      executable_.outputs.push_back(std::move(dims));
    }
  }

  void State() {
    const std::int64_t count = Count("state entries");
    updated_.resize(extents_.variables.size());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t variable = Ranged("state variable", 0, Last(extents_.variables.size()));
      Require(!updated_[variable], "a variable has two state entries");
      updated_[variable] = true;
      executable_.state.push_back({static_cast<int>(variable), Ranged("state mode", 0, 1) == static_cast<std::int64_t>(StateMode::kFresh)});
    }
  }

  void Updates() {
    const std::int64_t count = Count("updated outputs");
    for (std::int64_t i = 0; i < count; ++i) {
      const auto output = static_cast<int>(Ranged("updated output", 0, Last(executable_.outputs.size())));
      const auto input = static_cast<int>(Ranged("input of an updated output", 0, Last(extents_.inputs.size())));
      Require(output_bytes_[output] == extents_.inputs[input], "an output updates an input of another size");
      for (const Update& other : executable_.updated) Require(other.output != output, "an output is updated twice");
      executable_.updated.push_back({output, input});
    }
  }

  void Modules() {
    const std::int64_t count = Count("modules");
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t library = RequireReference(kImage, "module image");
      const auto* image = NextPointer<const void*>("module image");
      Require(RequireReference(kImageBytes, "module bytes") == library, "module bytes are another image's");
      executable_.modules.push_back({image, Ranged("module bytes", 1, kMaxBytes)});
    }
  }

  Step NextStep() {
    const std::int64_t code = Next("step code");
    switch (static_cast<StepCode>(code)) {
      case StepCode::kHostLaunch:
        Require(!extents_.on_gpu, "a CPU launch on a GPU");
        return CpuLaunch::Read(*this);
      case StepCode::kDeviceLaunch:
        Require(extents_.on_gpu, "a GPU launch on the CPU");
        return NextGpuLaunch();
      case StepCode::kCopy:
        return NextCopy();
      case StepCode::kLibraryCall:
        return NextCall();
    }
    throw std::invalid_argument("unknown step code " + std::to_string(code));
  }

  GpuLaunch NextGpuLaunch() {
    GpuLaunch launch{DeviceLaunchWords::Read(*this)};
    Require(launch.module < static_cast<std::int64_t>(executable_.modules.size()), "a module that is not there");
    for (const Operand& operand : launch.args) {  // a counter for each block at most
      if (operand.space != Space::kBarrier) continue;
      executable_.barriers = std::max(executable_.barriers, operand.index + launch.grid);
    }
    return launch;
  }

  Copy NextCopy() {
    const Copy copy = Copy::Read(*this);
    RequireWritable(copy.target);
    Require(copy.bytes <= std::min(Room(copy.target), Room(copy.source)), "a copy does not fit");
    return copy;
  }

  LibraryStep NextCall() {
    LibraryStep step;
    step.call = ReadCall(*this);
    step.args = Operands();
    Require(static_cast<int>(step.args.size()) == step.call->arguments(), "wrong number of arguments of a call");
    RequireWritable(step.args.back());
    const std::vector<std::int64_t> bytes = step.call->ArgumentBytes();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      Require(bytes[i] <= Room(step.args[i]), "argument " + std::to_string(i) + " of a call does not fit");
    }
    return step;
  }

  // Offsets count through all segments; what lies there is within one.
  Operand InArena(std::int64_t offset) const {
    const auto end = std::upper_bound(segment_ends_.begin(), segment_ends_.end(), offset);
    const auto segment = static_cast<int>(end - segment_ends_.begin());
    return {Space::kArena, offset - (*end - executable_.arena[segment]), segment};
  }

  static std::int64_t Last(std::size_t count) { return static_cast<std::int64_t>(count) - 1; }

  std::int64_t LastIndex(Space space) const {
    switch (space) {
      case Space::kInput:
        return Last(extents_.inputs.size());
      case Space::kOutput:
        return Last(executable_.outputs.size());
      case Space::kVariable:
        return Last(extents_.variables.size());
      case Space::kFresh:
        return Last(executable_.state.size());
      case Space::kArena:
        return arena_bytes_ - 1;
      case Space::kBarrier:
        return extents_.on_gpu ? kMaxBarriers : -1;
    }
    return -1;
  }

  // Bytes from the operand to the end of its buffer.
  std::int64_t Room(const Operand& operand) const {
    switch (operand.space) {
      case Space::kInput:
        return extents_.inputs[operand.index];
      case Space::kOutput:
        return output_bytes_[operand.index];
      case Space::kVariable:
        return extents_.variables[operand.index];
      case Space::kFresh:
        return extents_.variables[executable_.state[operand.index].variable];
      case Space::kArena:
        return executable_.arena[operand.segment] - operand.index;
      case Space::kBarrier:
        return 0;
    }
    return 0;
  }

  void RequireWritable(const Operand& operand) const {
    Require(operand.space != Space::kInput, "a step writes an input");
    Require(operand.space != Space::kVariable || InPlace(operand.index), "a step writes a variable that is only read");
  }

  bool InPlace(std::int64_t variable) const {
    for (const StatePlan& plan : executable_.state) {
      if (plan.variable == variable) return !plan.fresh;
    }
    return false;
  }

  const Extents& extents_;
  Executable& executable_;
  std::int64_t arena_bytes_ = 0;
  std::vector<std::int64_t> segment_ends_;  // bytes of the arena up to each segment's end
  std::vector<std::int64_t> output_bytes_;
  std::vector<bool> updated_;
};

}  // namespace

std::string Decode(const Words& words, const Extents& extents, Executable* executable) {
  try {
    Decoder(words, extents, executable).Run();
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

}  // namespace tf_stitch
