#include "op/gemm.h"

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

}  // namespace

std::shared_ptr<const LibraryCall> MakeCall(const GemmSpec& spec) {
  if (spec.out.transposed) throw std::invalid_argument("the result of a matmul is transposed");
  return std::make_shared<GemmCall>(spec);
}

}  // namespace tf_stitch
