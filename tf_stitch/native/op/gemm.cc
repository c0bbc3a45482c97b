#include "op/gemm.h"

#include "op/element_types.h"

namespace tf_stitch {
namespace {

// Whether matrices lie at equal distances from the beginning of memory on.
bool IsEven(const MatrixLayout& stored) { return stored.group == 1 && stored.offset == 0; }

class GemmCall final : public LibraryCall {
 public:
  explicit GemmCall(const GemmSpec& spec) : spec_(spec) {}

  int arguments() const override { return Arguments(spec_); }

  std::string RunOnHost(void* const* arguments, tsl::thread::ThreadPool* workers) const override {
    return RunHostGemm(spec_, arguments, workers) ? "" : "a matmul of a type that has none";
  }

  std::string Prepare(CUcontext context, const CallSite& site, std::shared_ptr<DeviceCall>* call) const override {
    if (!IsEven(spec_.a) || !IsEven(spec_.b) || !IsEven(spec_.out)) return "cuBLASLt takes matrices at equal distances";
    return FindGpuGemm(context, spec_, site, call);
  }

 private:
  const GemmSpec spec_;
};

class Float8GemmCall final : public LibraryCall {
 public:
  explicit Float8GemmCall(const Float8GemmSpec& spec) : spec_(spec) {}

  int arguments() const override { return 5; }

  std::string RunOnHost(void* const*, tsl::thread::ThreadPool*) const override {
    return "matmuls of float8 are for GPUs";
  }

  std::string Prepare(CUcontext context, const CallSite& site, std::shared_ptr<DeviceCall>* call) const override {
    return FindGpuFloat8Gemm(context, spec_, site, call);
  }

 private:
  const Float8GemmSpec spec_;
};

}  // namespace

std::shared_ptr<const LibraryCall> MakeCall(const Float8GemmSpec& spec) {
  if (!IsFloat8(spec.a_type) || !IsFloat8(spec.b_type)) throw std::invalid_argument("a matmul of float8 is of others");
  return std::make_shared<Float8GemmCall>(spec);
}

std::shared_ptr<const LibraryCall> MakeCall(const GemmSpec& spec) {
  if (spec.out.transposed) throw std::invalid_argument("the result of a matmul is transposed");
  return std::make_shared<GemmCall>(spec);
}

}  // namespace tf_stitch
