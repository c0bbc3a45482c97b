// Matmuls through cuBLASLt.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "op/gemm.h"
#include "cuda/gpu_timer.h"
#include "cuda/lt_library.h"
#include "op/recently_used.h"
#include "op/element_types.h"
#include "tensorflow/core/platform/tensor_float_32_utils.h"
#include "tensorflow/core/util/determinism.h"

namespace tf_stitch {
namespace {

// Numbers of cublasLt.h.
enum { kDescTransposeA = 3, kDescTransposeB = 4, kDescEpilogue = 7, kDescBiasPointer = 8 };
enum { kDescScaleA = 17, kDescScaleB = 18 };  // addresses of float32
enum { kLayoutBatchCount = 5, kLayoutBatchOffset = 6 };
enum { kPreferWorkspace = 1, kPreferReductions = 3, kPreferAlignment = 5 };
enum { kEpilogueDefault = 1, kEpilogueRelu = 2, kEpilogueBias = 4, kEpilogueGelu = 32 };  // bias joins as a bit
enum { kReal32 = 0, kReal64 = 1, kReal16 = 2, kRealBfloat16 = 14, kReal8E4m3 = 28, kReal8E5m2 = 29 };
enum { kCompute32 = 68, kCompute64 = 70, kCompute32AsTf32 = 77 };
constexpr std::uint32_t kReproducibleReductions = 2 | 4;  // by the compute or the output type: none in place
enum { kAlgoSplitK = 2, kAlgoReduction = 3 };
constexpr std::uint32_t kReductionByComputeType = 2;
constexpr int kProposals = 16;
// Matmuls of few tiles and many terms: proposals seldom split these, and a device with a block for each tile is idle.
// The gradient of BERT's masked words, [240, 30522] x [30522, 768], took 734 us on an H200, in TensorFlow 98.
constexpr std::int64_t kTile = 128, kFewTiles = 64, kManyTerms = 4096, kFewestTerms = 512;
constexpr std::size_t kSplitProposals = 4;  // the first ones, each split so often:
constexpr std::int32_t kSplits[] = {4, 8, 16, 32};

// Matmuls that are shared, of about 3 kB each. Executables hold theirs, of which a region has up to 512: one that is
// dropped here is settled anew by the next executable that wants it.
constexpr std::size_t kMostGemms = 2048;

// Element types of a and b, where they are float8: the scales of both are arguments before the result.
struct OperandTypes {
  int a, b;

  bool float8() const { return IsFloat8(a); }
  bool operator<(const OperandTypes& other) const { return std::tie(a, b) < std::tie(other.a, other.b); }
};

constexpr int kScaleA = 2, kScaleB = 3, kMostArguments = 5;  // arguments

struct State {
  using Key = std::tuple<CUcontext, GemmSpec, OperandTypes, unsigned, unsigned, std::size_t, bool, bool>;

  std::mutex mutex;
  LtLibrary library;
  std::map<CUcontext, LtHandle> handles;
  RecentlyUsed<Key, std::shared_ptr<DeviceCall>> gemms{kMostGemms};
};

// Destroyed by the library's own function.
template <typename Opaque>
using Owned = std::unique_ptr<Opaque, int (*)(Opaque*)>;

State& Global() {
  static auto* state = new State;  // contexts die before static destructors run
  return *state;
}

std::string Failed(const char* call, int status) {
  return status == 0 ? "" : std::string(call) + " failed with status " + std::to_string(status);
}

std::string Words(const GemmSpec& spec) {
  std::string words = std::to_string(spec.batch) + " matmuls of " + std::to_string(spec.m) + " x " +
                      std::to_string(spec.k) + " x " + std::to_string(spec.n);
  if (spec.bias) words += " with a bias";
  if (spec.addend) words += " with an addend";
  if (spec.activation != Activation::kNone) words += " and an activation";
  return words;
}

int DataType(int type) {
  switch (type) {
    case kFloat:
      return kReal32;
    case kDouble:
      return kReal64;
    case kHalf:
      return kReal16;
    case kBfloat16:
      return kRealBfloat16;
    case kFloat8E4m3fn:
      return kReal8E4m3;
    case kFloat8E5m2:
      return kReal8E5m2;
    default:
      return -1;
  }
}

class LtGemm final : public DeviceCall {
 public:
  LtGemm(const LtLibrary& lt, LtHandle handle, const GemmSpec& spec, OperandTypes types, unsigned cold,
         unsigned unaligned, std::size_t workspace, bool tf32, bool deterministic)
      : lt_(lt), handle_(handle), spec_(spec), types_(types), cold_(cold), unaligned_(unaligned),
        workspace_(workspace), tf32_(tf32), settled_(deterministic), desc_(nullptr, lt.DescDestroy),
        a_(nullptr, lt.LayoutDestroy), b_(nullptr, lt.LayoutDestroy), out_(nullptr, lt.LayoutDestroy), addend_(nullptr, lt.LayoutDestroy) {}

  // A row-major matmul is the column-major matmul of the exchanged operands.
  std::string Prepare() {
    if (DataType(spec_.type) < 0) return "cuBLASLt has no matmuls of this type";
    // Proposals look at no more of a bias or a scale than the alignment of its address.
    void* addresses[kMostArguments];
    for (int i = 0; i < kMostArguments; ++i) addresses[i] = reinterpret_cast<void*>(std::uintptr_t{Alignment(i)});
    std::string error = NewDesc(addresses, &desc_);
    const auto layout = [&](Owned<LtLayoutOpaque>* owned, int type, const MatrixLayout& stored, std::int64_t rows,
                            std::int64_t cols) {
      // Rows of cols elements are column-major columns; one stored transposed has its axes exchanged.
      const std::int64_t fast = stored.transposed ? rows : cols, slow = stored.transposed ? cols : rows;
      LtLayout made = nullptr;
      if (error.empty()) {
        error = Failed("cublasLtMatrixLayoutCreate",
                       lt_.LayoutCreate(&made, DataType(type), fast, slow, stored.stride));
      }
      owned->reset(made);
      if (!error.empty() || spec_.batch == 1) return;
      const std::int32_t count = static_cast<std::int32_t>(spec_.batch);
      error = Failed("cublasLtMatrixLayoutSetAttribute",
                     lt_.LayoutSet(made, kLayoutBatchCount, &count, sizeof(count)));
      if (error.empty()) {
        error = Failed("cublasLtMatrixLayoutSetAttribute",
                       lt_.LayoutSet(made, kLayoutBatchOffset, &stored.step, sizeof(stored.step)));
      }
    };
    layout(&a_, types_.a, spec_.a, spec_.m, spec_.k);
    layout(&b_, types_.b, spec_.b, spec_.k, spec_.n);
    layout(&out_, spec_.type, spec_.out, spec_.m, spec_.n);
    layout(&addend_, spec_.type, {false, spec_.n, spec_.m * spec_.n}, spec_.m, spec_.n);
    return error.empty() ? Propose() : error;
  }

  bool settled() const override { return settled_.load(std::memory_order_acquire); }

  std::size_t workspace_bytes() const override {
    if (settled()) return proposals_[chosen_].workspace;
    std::size_t most = 0;  // a run may try them all
    for (const LtHeuristic& proposal : proposals_) most = std::max(most, proposal.workspace);
    return most;
  }

  std::string Run(CUstream stream, void* const* arguments, void* workspace, bool trial) override {
    if (trial && !settled()) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!settled()) {
        Tune(stream, arguments, workspace);
        settled_.store(true, std::memory_order_release);
      }
    }
    if (settled()) return Launch(proposals_[chosen_], stream, arguments, workspace);
    std::string error;
    for (const LtHeuristic& proposal : proposals_) {  // the first one that the library does not refuse
      error = Launch(proposal, stream, arguments, workspace);
      if (error.empty()) break;
    }
    return error;
  }

 private:
  std::int32_t LtEpilogue() const {
    const std::int32_t bias = spec_.bias ? kEpilogueBias : 0;
    switch (spec_.activation) {
      case Activation::kRelu:
        return kEpilogueRelu | bias;
      case Activation::kGelu:
        return kEpilogueGelu | bias;
      case Activation::kNone:
        break;
    }
    return spec_.bias ? kEpilogueBias : kEpilogueDefault;
  }

  // Whether the descriptor holds addresses of arguments.
  bool HoldsAddresses() const { return spec_.bias || types_.float8(); }

  std::string NewDesc(void* const* arguments, Owned<LtDescOpaque>* owned) const {
    const bool wide = spec_.type == kDouble;
    const int compute = wide ? kCompute64 : tf32_ && spec_.type == kFloat ? kCompute32AsTf32 : kCompute32;
    LtDesc desc = nullptr;
    std::string error = Failed("cublasLtMatmulDescCreate", lt_.DescCreate(&desc, compute, wide ? kReal64 : kReal32));
    owned->reset(desc);
    const auto set = [&](int attribute, const auto& value) {
      if (error.empty()) {
        error = Failed("cublasLtMatmulDescSetAttribute", lt_.DescSet(desc, attribute, &value, sizeof(value)));
      }
    };
    set(kDescTransposeA, std::int32_t{spec_.b.transposed});
    set(kDescTransposeB, std::int32_t{spec_.a.transposed});
    if (LtEpilogue() != kEpilogueDefault) set(kDescEpilogue, LtEpilogue());
    if (spec_.bias) set(kDescBiasPointer, arguments[2]);
    if (types_.float8()) {
      set(kDescScaleA, arguments[kScaleB]);  // of the exchanged operands
      set(kDescScaleB, arguments[kScaleA]);
    }
    return error;
  }

  std::string Propose() {
    LtPreference preference = nullptr;
    std::string error = Failed("cublasLtMatmulPreferenceCreate", lt_.PreferenceCreate(&preference));
    if (!error.empty()) return error;
    const auto prefer = [&](int attribute, const auto& value) {
      if (error.empty()) {
        error = Failed("cublasLtMatmulPreferenceSetAttribute",
                       lt_.PreferenceSet(preference, attribute, &value, sizeof(value)));
      }
    };
    prefer(kPreferWorkspace, std::uint64_t{workspace_});
    prefer(kPreferReductions, kReproducibleReductions);
    const int result = Result();
    const int arguments[] = {1, 0, spec_.addend ? AddendArgument(spec_) : result, result};  // of A, B, C and D
    for (int i = 0; i < 4; ++i) prefer(kPreferAlignment + i, Alignment(arguments[i]));
    int found = 0;
    proposals_.resize(kProposals);
    if (error.empty()) {
      error = Failed("cublasLtMatmulAlgoGetHeuristic", lt_.Heuristic(handle_, desc_.get(), b_.get(), a_.get(), C(),
                                                                     out_.get(), preference, kProposals,
                                                                     proposals_.data(), &found));
    }
    lt_.PreferenceDestroy(preference);
    proposals_.resize(std::max(found, 0));
    proposals_.erase(std::remove_if(proposals_.begin(), proposals_.end(), [](const auto& p) { return p.state != 0; }),
                     proposals_.end());
    if (error.empty() && !settled()) ProposeSplits();
    return error.empty() && proposals_.empty() ? "cuBLASLt has no kernel for " + Words(spec_) : error;
  }

  // Adds the first proposals with their terms split, where few blocks would have them all. Partial sums lie in the
  // workspace and are added in order.
  void ProposeSplits() {
    const auto tiles = [](std::int64_t extent) { return (extent + kTile - 1) / kTile; };
    if (types_.float8() || spec_.k < kManyTerms || spec_.batch * tiles(spec_.m) * tiles(spec_.n) > kFewTiles) return;
    const std::size_t whole = std::min(proposals_.size(), kSplitProposals);
    for (std::size_t i = 0; i < whole; ++i) {
      for (const std::int32_t splits : kSplits) {
        LtHeuristic split = proposals_[i];
        const bool possible =
            spec_.k / splits >= kFewestTerms &&
            lt_.AlgoSet(&split.algo, kAlgoSplitK, &splits, sizeof(splits)) == 0 &&
            lt_.AlgoSet(&split.algo, kAlgoReduction, &kReductionByComputeType, sizeof(kReductionByComputeType)) == 0;
        LtHeuristic found{};
        if (!possible || lt_.AlgoCheck(handle_, desc_.get(), b_.get(), a_.get(), C(), out_.get(), &split.algo,
                                       &found) != 0) {
          continue;
        }
        if (found.state != 0 || found.workspace > workspace_) continue;
        split.workspace = found.workspace;
        proposals_.push_back(split);
      }
    }
  }

  // Keeps the proposal that runs fastest; the library's first one where none can be tried.
  void Tune(CUstream stream, void* const* arguments, void* workspace) {
    if (proposals_.size() < 2) return;
    const std::size_t bytes[] = {Bytes(types_.a, spec_.a, spec_.m, spec_.k),
                                 Bytes(types_.b, spec_.b, spec_.k, spec_.n)};
    std::vector<GpuTimer::Memory> hot;
    for (int i = 0; i < 2; ++i) {
      if ((cold_ >> i & 1) == 0) hot.emplace_back(arguments[i], bytes[i]);
    }
    const GpuTimer timer(stream, std::move(hot));
    float best = std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < proposals_.size(); ++i) {
      const float time =
          timer.Time([&] { return Launch(proposals_[i], stream, arguments, workspace).empty(); });
      if (time < best) {
        best = time;
        chosen_ = i;
      }
    }
  }

  // What matrices [rows, cols] of a type span.
  std::size_t Bytes(int type, const MatrixLayout& stored, std::int64_t rows, std::int64_t cols) const {
    const std::int64_t slow = stored.transposed ? cols : rows, fast = stored.transposed ? rows : cols;
    const auto items = static_cast<std::size_t>((spec_.batch - 1) * stored.step + (slow - 1) * stored.stride + fast);
    return items * ElementBytes(type);
  }

  std::string Launch(const LtHeuristic& proposal, CUstream stream, void* const* arguments, void* workspace) const {
    // Addresses of the bias and of scales are part of the descriptor, which other threads may be using.
    Owned<LtDescOpaque> with_addresses(nullptr, lt_.DescDestroy);
    std::string error;
    if (HoldsAddresses()) error = NewDesc(arguments, &with_addresses);
    if (error.empty()) {
      const float one = 1, beta = spec_.addend;
      const double wide_one = 1, wide_beta = spec_.addend;
      const bool wide = spec_.type == kDouble;
      void* out = arguments[Result()];
      const void* c = spec_.addend ? arguments[AddendArgument(spec_)] : out;
      error = Failed("cublasLtMatmul",
                     lt_.Matmul(handle_, HoldsAddresses() ? with_addresses.get() : desc_.get(),
                                wide ? static_cast<const void*>(&wide_one) : &one, arguments[1], b_.get(), arguments[0],
                                a_.get(), wide ? static_cast<const void*>(&wide_beta) : &beta, c, C(), out, out_.get(),
                                &proposal.algo, workspace, proposal.workspace, stream));
    }
    return error;
  }

  int Result() const { return Arguments(spec_) - 1 + (types_.float8() ? 2 : 0); }

  LtLayout C() const { return spec_.addend ? addend_.get() : out_.get(); }

  // Bytes that the address of an argument is a multiple of.
  std::uint32_t Alignment(int argument) const {
    if ((unaligned_ >> argument & 1) == 0) return kCallAlignment;
    if (types_.float8() && (argument == kScaleA || argument == kScaleB)) return ElementBytes(kFloat);
    return ElementBytes(argument == 0 ? types_.a : argument == 1 ? types_.b : spec_.type);
  }

  const LtLibrary& lt_;
  const LtHandle handle_;
  const GemmSpec spec_;
  const OperandTypes types_;
  const unsigned cold_, unaligned_;
  const std::size_t workspace_;
  const bool tf32_;
  std::atomic<bool> settled_;
  Owned<LtDescOpaque> desc_;
  Owned<LtLayoutOpaque> a_, b_, out_, addend_;
  std::vector<LtHeuristic> proposals_;
  std::size_t chosen_ = 0;
  std::mutex mutex_;
};

std::string Find(CUcontext context, const GemmSpec& spec, OperandTypes types, const CallSite& site,
                 std::shared_ptr<DeviceCall>* gemm) {
  const std::string missing = LoadCublasLt({});
  if (!missing.empty()) return missing;
  State& state = Global();
  std::lock_guard<std::mutex> lock(state.mutex);
  const bool tf32 = tsl::tensor_float_32_execution_enabled(), deterministic = tensorflow::OpDeterminismRequired();
  const State::Key key{context, spec, types, site.cold, site.unaligned, site.workspace, tf32, deterministic};
  if (const std::shared_ptr<DeviceCall>* known = state.gemms.Find(key)) {
    *gemm = *known;
    return "";
  }
  LtHandle& handle = state.handles[context];
  if (handle == nullptr) {
    const std::string error = Failed("cublasLtCreate", state.library.Create(&handle));
    if (!error.empty()) return error;
  }
  auto made = std::make_shared<LtGemm>(state.library, handle, spec, types, site.cold, site.unaligned, site.workspace,
                                       tf32, deterministic);
  const std::string error = made->Prepare();
  if (!error.empty()) return error;
  state.gemms.Keep(key, made);
  *gemm = std::move(made);
  return "";
}

}  // namespace

std::string LoadCublasLt(const std::vector<std::string>& candidates) {
  State& state = Global();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (!state.library.error.empty()) state.library = LoadLtLibrary(candidates);
  return state.library.error;
}

std::string FindGpuGemm(CUcontext context, const GemmSpec& spec, const CallSite& site,
                        std::shared_ptr<DeviceCall>* gemm) {
  return Find(context, spec, {spec.type, spec.type}, site, gemm);
}

// Tensor cores take float8 whose terms lie side by side only: b is stored transposed.
std::string FindGpuFloat8Gemm(CUcontext context, const Float8GemmSpec& spec, const CallSite& site,
                              std::shared_ptr<DeviceCall>* gemm) {
  const auto rows = [](bool transposed, std::int64_t stride) { return MatrixLayout{transposed, stride, 0, 1, 0, 0}; };
  const GemmSpec plain{spec.type, 1, spec.m, spec.n, spec.k, rows(false, spec.k), rows(true, spec.k),
                       rows(false, spec.n), false, false, Activation::kNone};
  return Find(context, plain, {spec.a_type, spec.b_type}, site, gemm);
}

}  // namespace tf_stitch
