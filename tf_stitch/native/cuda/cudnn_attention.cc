// Attentions through operation graphs of cuDNN 9 (attention_graph.cc).
#include "cuda/cudnn_attention.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda/attention_graph.h"
#include "cuda/cudnn_handles.h"
#include "cuda/cudnn_plans.h"
#include "cuda/shared_calls.h"
#include "op/element_types.h"
#include "tensorflow/core/util/determinism.h"

namespace tf_stitch {
namespace {

constexpr std::size_t kMostAttentions = 256;  // that are shared, of some hundred kB each
constexpr std::int64_t kMostConfigs = 8;
constexpr std::size_t kPart = 256;  // bytes that parts of scratch memory begin at multiples of
constexpr std::size_t kNumbers = 4;  // of a layout

using Key = std::tuple<CUcontext, AttentionSpec, bool>;

SharedCalls<Key>& Shared() {
  static auto* calls = new SharedCalls<Key>(kMostAttentions);  // contexts die before static destructors run
  return *calls;
}

using Tensors = std::vector<AttentionTensor>;

bool IsGradient(const AttentionSpec& spec) { return spec.pass == AttentionPass::kGradient; }

// Tensors that a layout is given of, in order.
Tensors Matrices(const AttentionSpec& spec) {
  if (!IsGradient(spec)) return {kQueries, kKeys, kValues, kAttended};
  return {kQueries, kKeys, kValues, kAttended, kAttendedGrad, kQueryGrad, kKeyGrad, kValueGrad};
}

Tensors Results(const AttentionSpec& spec) {
  if (IsGradient(spec)) return {kQueryGrad, kKeyGrad, kValueGrad};
  return {kAttended, kStatistics};
}

bool IsWanted(const AttentionSpec& spec, std::size_t result) { return (spec.results >> result & 1) != 0; }

// The tensor of each argument.
Tensors Arguments(const AttentionSpec& spec) {
  Tensors found{kQueries, kKeys, kValues};
  if (IsGradient(spec)) found.insert(found.end(), {kAttended, kAttendedGrad, kStatistics});
  const Tensors results = Results(spec);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (IsWanted(spec, i)) found.push_back(results[i]);
  }
  return found;
}

// Results that nobody wants, which scratch memory holds without gaps; statistics stay inside of the graph.
Tensors Unwanted(const AttentionSpec& spec) {
  const Tensors results = Results(spec);
  Tensors found;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!IsWanted(spec, i) && results[i] != kStatistics) found.push_back(results[i]);
  }
  return found;
}

std::int64_t Rows(const AttentionSpec& spec, AttentionTensor tensor) {
  return tensor == kKeyGrad || tensor == kValueGrad ? spec.keys : spec.queries;
}

std::string Words(const AttentionSpec& spec) {
  return std::string(IsGradient(spec) ? "gradients of an attention of " : "an attention of ") +
         std::to_string(spec.batch) + " x " + std::to_string(spec.heads) + " heads by " +
         std::to_string(spec.shared) + ", " + std::to_string(spec.queries) +
         " queries and " + std::to_string(spec.keys) + " keys of " + std::to_string(spec.columns);
}

AttentionShape Shape(const AttentionSpec& spec, bool repeatable) {
  AttentionShape shape{};
  shape.type = spec.type == kHalf ? kDnnHalf : kDnnBfloat16;
  shape.batch = spec.batch;
  shape.heads = spec.heads;
  shape.key_heads = spec.heads / spec.shared;
  shape.queries = spec.queries;
  shape.keys = spec.keys;
  shape.columns = spec.columns;
  const auto bits = static_cast<std::uint32_t>(spec.scale);
  std::memcpy(&shape.scale, &bits, sizeof bits);
  shape.causal = spec.causal;
  shape.statistics = !IsGradient(spec) && (spec.results >> 1) != 0;
  shape.repeatable = repeatable;
  const Tensors matrices = Matrices(spec);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const std::int64_t* at = &spec.layouts[kNumbers * i];
    shape.strides[matrices[i]] = {at[1], at[2], at[3]};
  }
  for (const AttentionTensor tensor : Unwanted(spec)) {
    const std::int64_t matrix = Rows(spec, tensor) * spec.columns;
    shape.strides[tensor] = {spec.heads * matrix, matrix, spec.columns};
  }
  return shape;
}

class Attention final : public DeviceCall {
 public:
  Attention(const Cudnn& dnn, const AttentionSpec& spec, bool repeatable)
      : dnn_(*dnn.library), handle_(*dnn.handle), spec_(spec), shape_(Shape(spec, repeatable)),
        hidden_(HiddenScore(dnn_)) {}

  std::string Prepare() {
    std::lock_guard<std::mutex> lock(handle_.mutex);
    AttentionGraph graph = IsGradient(spec_) ? BuildAttentionGradient(dnn_, handle_.handle, shape_)
                                             : BuildAttention(dnn_, handle_.handle, shape_);
    if (!graph.error.empty()) return graph.error;
    for (const int mode : {kDnnModeA, kDnnModeFallback}) {
      // The first that has a kernel. Each is compiled when its plan is made, in most of a second, so they are not tried
      // against each other.
      for (const Descriptor& config : DnnConfigurations(dnn_, *graph.graph, mode, kMostConfigs)) {
        if (plans_.empty()) AddDnnPlan(dnn_, handle_.handle, config, &plans_);
      }
    }
    if (plans_.empty()) return "cuDNN has no kernel for " + Words(spec_);
    tensors_ = graph.tensors;
    workspace_ = plans_.front().workspace;
    PlaceScratch();
    return "";
  }

  bool settled() const override { return true; }
  std::size_t workspace_bytes() const override { return workspace_; }

  std::string Run(CUstream stream, void* const* arguments, void* workspace, bool) override {
    float scale = shape_.scale, hidden = hidden_, one = 1;
    std::array<void*, kFirstInner> at{};
    at[kScale] = &scale;
    at[kHidden] = &hidden;
    at[kOne] = &one;
    const Tensors given = Arguments(spec_), matrices = Matrices(spec_);
    for (std::size_t i = 0; i < given.size(); ++i) at[given[i]] = arguments[i];
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const std::int64_t bytes = spec_.layouts[kNumbers * i] * ElementBytes(spec_.type);
      if (at[matrices[i]] != nullptr) at[matrices[i]] = static_cast<char*>(at[matrices[i]]) + bytes;
    }
    for (const auto& [tensor, offset] : scratch_) at[tensor] = static_cast<char*>(workspace) + offset;
    std::vector<std::int64_t> numbers(tensors_.begin(), tensors_.end());
    std::vector<void*> pointers;
    for (const AttentionTensor tensor : tensors_) pointers.push_back(at[tensor]);
    return RunDnnPlan(dnn_, &handle_, plans_.front(), stream, numbers, pointers.data(), workspace);
  }

 private:
  // Scratch memory behind that of the plan: sums of gradients, and results that nobody wants.
  void PlaceScratch() {
    const auto add = [&](AttentionTensor tensor, std::size_t bytes) {
      workspace_ = (workspace_ + kPart - 1) / kPart * kPart;
      scratch_.emplace_back(tensor, workspace_);
      workspace_ += bytes;
    };
    for (const AttentionTensor tensor : Unwanted(spec_)) {
      const std::int64_t elements = spec_.batch * spec_.heads * Rows(spec_, tensor) * spec_.columns;
      add(tensor, static_cast<std::size_t>(elements * ElementBytes(spec_.type)));
    }
    if (!IsGradient(spec_)) return;
    add(kSum, AttentionScratchBytes(shape_, kSum));
    if (!shape_.repeatable) add(kQueryGradSums, AttentionScratchBytes(shape_, kQueryGradSums));
  }

  const DnnLibrary& dnn_;
  SharedHandle& handle_;
  const AttentionSpec spec_;
  const AttentionShape shape_;
  const float hidden_;
  std::vector<DnnPlan> plans_;  // one, that runs
  std::size_t workspace_ = 0;
  Tensors tensors_;
  std::vector<std::pair<AttentionTensor, std::size_t>> scratch_;
};

class AttentionCall final : public LibraryCall {
 public:
  explicit AttentionCall(const AttentionSpec& spec) : spec_(spec) {}

  int arguments() const override { return static_cast<int>(Arguments(spec_).size()); }

  std::string RunOnHost(void* const*, tsl::thread::ThreadPool*) const override {
    return "attentions on a CPU are no library's";
  }

  std::string Prepare(CUcontext context, const CallSite& site, std::shared_ptr<DeviceCall>* call) const override {
    return FindAttention(context, spec_, site, call);
  }

 private:
  const AttentionSpec spec_;
};

}  // namespace

std::shared_ptr<const LibraryCall> MakeCall(const AttentionSpec& spec) {
  if (spec.type != kHalf && spec.type != kBfloat16) throw std::invalid_argument("an attention of another type");
  if (spec.layouts.size() != kNumbers * Matrices(spec).size()) {
    throw std::invalid_argument("layouts of an attention are missing");
  }
  if (spec.heads % spec.shared != 0 || (IsGradient(spec) && spec.shared != 1)) {
    throw std::invalid_argument("heads of an attention that do not share keys so");
  }
  if (spec.results >> Results(spec).size() != 0) throw std::invalid_argument("an attention has no such result");
  return std::make_shared<AttentionCall>(spec);
}

std::string FindAttention(CUcontext context, const AttentionSpec& spec, const CallSite& site,
                          std::shared_ptr<DeviceCall>* call) {
  if (site.unaligned != 0) return "cuDNN's attention takes no memory that begins at no multiple of 16 bytes";
  Cudnn dnn;
  const std::string missing = FindCudnn(context, &dnn);
  if (!missing.empty()) return missing;
  const bool repeatable = tensorflow::OpDeterminismRequired();
  return Shared().Find({context, spec, repeatable},
                       [&] { return std::make_shared<Attention>(dnn, spec, repeatable); }, call);
}

}  // namespace tf_stitch
