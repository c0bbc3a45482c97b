#include "op/gemm.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "op/element_types.h"

namespace tf_stitch {
namespace {

// So many elements; of more than memory has, INT64_MAX.
std::int64_t Bytes(unsigned __int128 elements, int type) {
  constexpr unsigned __int128 kMost = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(elements * ElementBytes(type), kMost));
}

// From the beginning of memory to the end of the last of `batch` matrices [rows, cols].
std::int64_t Bytes(const MatrixLayout& stored, std::int64_t batch, std::int64_t rows, std::int64_t cols, int type) {
  using Wide = unsigned __int128;
  const Wide groups = (batch - 1) / stored.group, rest = (batch - 1) % stored.group;
  Wide last = groups * stored.step + rest * stored.group_step;
  if (groups > 0) last = std::max(last, (groups - 1) * stored.step + Wide(stored.group - 1) * stored.group_step);
  if (stored.transposed) std::swap(rows, cols);
  return Bytes(stored.offset + last + Wide(rows - 1) * stored.stride + cols, type);
}

// Whether matrices lie at equal distances from the beginning of memory on.
bool IsEven(const MatrixLayout& stored) { return stored.group == 1 && stored.offset == 0; }

class GemmCall final : public LibraryCall {
 public:
  explicit GemmCall(const GemmSpec& spec) : spec_(spec) {}

  int arguments() const override { return Arguments(spec_); }

  std::vector<std::int64_t> ArgumentBytes() const override {
    const GemmSpec& s = spec_;
    std::vector<std::int64_t> bytes{Bytes(s.a, s.batch, s.m, s.k, s.type), Bytes(s.b, s.batch, s.k, s.n, s.type)};
    if (s.bias) bytes.push_back(Bytes(s.n, s.type));
    if (s.addend) bytes.push_back(Bytes(static_cast<unsigned __int128>(s.batch) * s.m * s.n, s.type));
    bytes.push_back(Bytes(s.out, s.batch, s.m, s.n, s.type));
    return bytes;
  }

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

  std::vector<std::int64_t> ArgumentBytes() const override {
    using Wide = unsigned __int128;
    return {Bytes(Wide(spec_.m) * spec_.k, spec_.a_type), Bytes(Wide(spec_.n) * spec_.k, spec_.b_type),
            Bytes(1, kFloat), Bytes(1, kFloat), Bytes(Wide(spec_.m) * spec_.n, spec_.type)};
  }

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
