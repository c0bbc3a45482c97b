// Rows that a result of a loop's body leaves, one an iteration: an output of the loop's op.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "loop_roles.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {

class LoopStack {
 public:
  // `row`: shape of the result.
  LoopStack(const OutputRole& role, tensorflow::DataType type, const tensorflow::TensorShape& row)
      : result_(role.result), count_(role.input), backward_(role.backward), type_(type), row_(row),
        bytes_(row.num_elements() * tensorflow::DataTypeSize(type)) {}

  // Room for as many rows as the op's input says; if none does, for those `expected`, to begin with.
  absl::Status Begin(tensorflow::OpKernelContext* ctx, std::int64_t expected) {
    if (grows()) return Resize(ctx, std::max(expected, kFewRows));
    const tensorflow::Tensor& count = ctx->input(count_);
    if (count.NumElements() != 1) return absl::InvalidArgumentError("a number of rows is no scalar");
    const std::int64_t rows = count.flat<std::int32_t>()(0);
    if (rows < 0) return absl::InvalidArgumentError("a number of rows is negative");
    TF_RETURN_IF_ERROR(Resize(ctx, rows));
    if (backward_) {
      first_ += (rows - 1) * bytes_;
      step_ = -bytes_;
    }
    return absl::OkStatus();
  }

  int result() const { return result_; }
  std::int64_t bytes() const { return bytes_; }  // of a row

  // Iterations that it can ever have rows for.
  std::int64_t most() const { return grows() ? std::numeric_limits<std::int64_t>::max() : capacity_; }

  // Iterations less than most() that it has no rows for as yet.
  bool Full(std::int64_t iteration) const { return iteration >= capacity_; }

  // Moves the rows to where there is room for twice as many.
  absl::Status Grow(tensorflow::OpKernelContext* ctx) {
    const tensorflow::Tensor full = tensor_;
    TF_RETURN_IF_ERROR(Resize(ctx, 2 * capacity_));
    std::memcpy(first_, full.data(), full.TotalBytes());
    return absl::OkStatus();
  }

  void* Row(std::int64_t iteration) const { return first_ + iteration * step_; }

  // The tensor after so many iterations. Rows that none has written are zeros.
  absl::StatusOr<tensorflow::Tensor> Finish(tensorflow::OpKernelContext* ctx, std::int64_t iterations) {
    if (!grows()) {
      for (std::int64_t i = iterations; i < capacity_; ++i) std::memset(Row(i), 0, bytes_);
      return tensor_;
    }
    // Not for much less than there is room for: nobody else could have that memory as long as the tensor lives.
    if (!backward_ && iterations > capacity_ / 2) return tensor_.Slice(0, iterations);
    const tensorflow::Tensor whole = tensor_;
    const auto* rows = static_cast<const char*>(whole.data());
    TF_RETURN_IF_ERROR(Resize(ctx, iterations));
    for (std::int64_t i = 0; i < iterations; ++i) {
      std::memcpy(Row(backward_ ? iterations - 1 - i : i), rows + i * bytes_, bytes_);
    }
    return tensor_;
  }

 private:
  static constexpr std::int64_t kFewRows = 16;

  bool grows() const { return count_ < 0; }

  // New memory for so many rows, in the order of iterations.
  absl::Status Resize(tensorflow::OpKernelContext* ctx, std::int64_t rows) {
    tensorflow::TensorShape shape = row_;
    TF_RETURN_IF_ERROR(shape.InsertDimWithStatus(0, rows));
    tensorflow::Tensor tensor;
    TF_RETURN_IF_ERROR(ctx->allocate_temp(type_, shape, &tensor));
    tensor_ = tensor;
    first_ = static_cast<char*>(tensor.data());
    step_ = bytes_;
    capacity_ = rows;
    return absl::OkStatus();
  }

  int result_;     // of the body
  int count_;      // the op's input with the number of rows; -1: it grows
  bool backward_;  // the last iteration gives the first row
  tensorflow::DataType type_;
  tensorflow::TensorShape row_;
  std::int64_t bytes_;
  tensorflow::Tensor tensor_;
  char* first_ = nullptr;  // row, in the order of iterations
  std::int64_t step_ = 0;  // bytes from one iteration's to the next one's
  std::int64_t capacity_ = 0;
};

}  // namespace tf_stitch
