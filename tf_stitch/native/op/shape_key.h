// What selects an executable of a region: flags, then rank and dimensions of every input and of every variable's value.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "op/key_flags.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_stitch {

class ShapeKey : public KeyFlags {
 public:
  // Whether rows of so many bytes are as aligned as the tensor is, as far as kernels of all-aligned buffers care: those
  // of a GPU access 16 bytes at once.
  static constexpr bool AlignsRows(bool on_gpu, std::int64_t bytes) {
    return bytes % (on_gpu ? 16 : static_cast<std::int64_t>(kAlignment)) == 0;
  }

  // `first_axis`: 1 for a row.
  void Add(const tensorflow::Tensor& tensor, int first_axis = 0) {
    MayLieAt(reinterpret_cast<std::uintptr_t>(tensor.data()));
    const int rank = tensor.dims();
    words_.push_back(rank - first_axis);
    for (int axis = first_axis; axis < rank; ++axis) words_.push_back(tensor.dim_size(axis));
  }

  // Some value has this address, or one that is so many bytes from another.
  void MayLieAt(std::uintptr_t bits) {
    bits_ |= bits;
    words_[0] = bits_ % kAlignment == 0 ? words_[0] | kAllAligned : words_[0] & ~kAllAligned;
  }

  void AddFlag(std::int64_t flag) { words_[0] |= flag; }

  const std::int64_t* data() const { return words_.data(); }
  std::size_t size() const { return words_.size(); }
  std::vector<std::int64_t> Copy() const { return {words_.begin(), words_.end()}; }

 private:
  absl::InlinedVector<std::int64_t, 96> words_{kAllAligned};
  std::uintptr_t bits_ = 0;
};

}  // namespace tf_stitch
