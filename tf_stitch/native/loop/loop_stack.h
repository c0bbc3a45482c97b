// Rows that a result of a loop's body leaves, one an iteration: an output of the loop's op.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "op/buffers.h"
#include "loop/loop_roles.h"
#include "op/placement.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {

class LoopStack {
 public:
  // `row`: shape of the result. `placement` outlives the stack.
  LoopStack(const Placement& placement, const OutputRole& role, tensorflow::DataType type,
            const tensorflow::TensorShape& row)
      : placement_(&placement), result_(role.result), input_(role.input), over_(role.over), order_(role.row),
        type_(type), shape_(row),
        bytes_(row.num_elements() * tensorflow::DataTypeSize(type)) {}

  // Room for as many rows as the op's input says, or has; if none does, for those `expected`, to begin with.
  absl::Status Begin(tensorflow::OpKernelContext* ctx, std::int64_t expected) {
    if (grows()) return Resize(ctx, std::max(expected, kFewRows));
    TF_ASSIGN_OR_RETURN(const std::int64_t rows, over_ ? Under(ctx->input(input_)) : Count(ctx->input(input_)));
    TF_RETURN_IF_ERROR(Resize(ctx, rows));
    if (numbered()) written_.resize(rows);
    if (order_.backward) {
      first_ += (rows - 1) * bytes_;
      step_ = -bytes_;
    }
    return absl::OkStatus();
  }

  int result() const { return result_; }

  // Room for an iteration if it grows. Rows may move, row() with them.
  absl::Status Reserve(tensorflow::OpKernelContext* ctx, std::int64_t iteration) {
    if (!grows() || iteration < capacity_) return absl::OkStatus();
    const tensorflow::Tensor full = tensor_;
    const std::int64_t last = row_ - first_;
    TF_RETURN_IF_ERROR(Resize(ctx, 2 * capacity_));
    TF_RETURN_IF_ERROR(CopyBytes(*placement_, first_, full.data(), full.TotalBytes()));
    row_ = first_ + last;
    return absl::OkStatus();
  }

  // Chooses the row of an iteration. `numbers`: inputs of the body that numbers rows, in host memory.
  absl::Status Point(std::int64_t iteration, const Buffers::Pointers& numbers) {
    const std::int64_t row =
        numbered() ? *static_cast<const std::int32_t*>(numbers[order_.numbered_by]) : iteration;
    if (row < 0 || row >= capacity_) return absl::OutOfRangeError("a loop writes a row that is not there");
    if (numbered()) written_[row] = true;
    row_ = At(row);
    return absl::OkStatus();
  }

  // The one that was chosen last.
  char* row() const { return row_; }

  // Its value lies elsewhere: brings it there.
  absl::Status Copy(const void* value) const { return CopyBytes(*placement_, row_, value, bytes_); }

  // The tensor after so many iterations. Rows that none has written are zeros, or those of the op's input.
  absl::StatusOr<tensorflow::Tensor> Finish(tensorflow::OpKernelContext* ctx, std::int64_t iterations) {
    if (!grows()) {
      TF_RETURN_IF_ERROR(numbered() ? Fill() : Fill(std::min(iterations, capacity_), capacity_));
      return tensor_;
    }
    // Not for much less than there is room for: nobody else could have that memory as long as the tensor lives.
    if (!order_.backward && iterations > capacity_ / 2) return tensor_.Slice(0, iterations);
    const tensorflow::Tensor whole = tensor_;
    const auto* rows = static_cast<const char*>(whole.data());
    TF_RETURN_IF_ERROR(Resize(ctx, iterations));
    if (!order_.backward) {
      TF_RETURN_IF_ERROR(CopyBytes(*placement_, first_, rows, iterations * bytes_));
      return tensor_;
    }
    for (std::int64_t i = 0; i < iterations; ++i) {
      TF_RETURN_IF_ERROR(CopyBytes(*placement_, At(iterations - 1 - i), rows + i * bytes_, bytes_));
    }
    return tensor_;
  }

 private:
  static constexpr std::int64_t kFewRows = 16;

  bool grows() const { return input_ < 0; }
  bool numbered() const { return order_.numbered_by >= 0; }

  char* At(std::int64_t number) const { return first_ + number * step_; }

  // The number of rows that an input says.
  static absl::StatusOr<std::int64_t> Count(const tensorflow::Tensor& count) {
    if (count.NumElements() != 1) return absl::InvalidArgumentError("a number of rows is no scalar");
    const std::int64_t rows = count.flat<std::int32_t>()(0);
    if (rows < 0) return absl::InvalidArgumentError("a number of rows is negative");
    return rows;
  }

  // The number of rows of an input, which shine through.
  absl::StatusOr<std::int64_t> Under(const tensorflow::Tensor& rows) {
    tensorflow::TensorShape row = rows.shape();
    if (row.dims() > 0) row.RemoveDim(0);
    if (rows.dims() == 0 || row != shape_) {
      return absl::InvalidArgumentError("a loop writes rows of another shape than there are");
    }
    under_ = rows;
    return rows.dim_size(0);
  }

  // Makes rows [begin, end) what they are if none is written.
  absl::Status Fill(std::int64_t begin, std::int64_t end) const {
    if (begin == end) return absl::OkStatus();
    char* first = std::min(At(begin), At(end - 1));
    const std::int64_t bytes = (end - begin) * bytes_;
    if (!over_) return FillBytes(*placement_, first, 0, bytes);
    const auto* rows = static_cast<const char*>(under_.data());
    return CopyBytes(*placement_, first, rows + (first - static_cast<char*>(tensor_.data())), bytes);
  }

  // The same for all that none has written.
  absl::Status Fill() const {
    for (std::int64_t i = 0; i < capacity_; ++i) {
      if (!written_[i]) TF_RETURN_IF_ERROR(Fill(i, i + 1));
    }
    return absl::OkStatus();
  }

  // New memory for so many rows, in the order of iterations.
  absl::Status Resize(tensorflow::OpKernelContext* ctx, std::int64_t rows) {
    tensorflow::TensorShape shape = shape_;
    TF_RETURN_IF_ERROR(shape.InsertDimWithStatus(0, rows));
    tensorflow::Tensor tensor;
    TF_RETURN_IF_ERROR(AllocateTemp(ctx, *placement_, type_, shape, &tensor));
    tensor_ = tensor;
    first_ = static_cast<char*>(tensor.data());
    step_ = bytes_;
    capacity_ = rows;
    return absl::OkStatus();
  }

  const Placement* placement_;
  int result_;  // of the body
  int input_;   // the op's with the number of rows, or with rows; -1: it grows
  bool over_;   // its rows are those that none writes
  Row order_;
  tensorflow::DataType type_;
  tensorflow::TensorShape shape_;  // of a row
  std::int64_t bytes_;
  tensorflow::Tensor tensor_;
  tensorflow::Tensor under_;
  char* first_ = nullptr;  // row, in the order of iterations or of numbers
  std::int64_t step_ = 0;  // bytes from one to the next
  std::int64_t capacity_ = 0;
  char* row_ = nullptr;
  std::vector<bool> written_;  // if numbered
};

}  // namespace tf_stitch
