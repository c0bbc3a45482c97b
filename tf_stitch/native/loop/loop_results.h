// The results of a loop's body in one call of its op: where each iteration leaves them, and the outputs made of them.
#pragma once
#include <cstdint>
#include <vector>

#include "op/buffers.h"
#include "op/executable.h"
#include "loop/loop_roles.h"
#include "loop/loop_stack.h"
#include "op/placement.h"
#include "op/shape_key.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {

class LoopResults {
 public:
  // `types`: of the body's results. `ahead`: the body may run once more than counts; then it updates nothing. The
  // arguments outlive the object.
  LoopResults(tensorflow::OpKernelContext* ctx, const Placement& placement, const LoopRoles& roles,
              const Executable& body, const std::vector<tensorflow::DataType>& types, bool ahead)
      : ctx_(ctx), placement_(placement), roles_(roles), results_(types.size()), latest_(types.size()) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      results_[i].kept = ahead || roles.results[i].kept;
      results_[i].type = types[i];
      results_[i].shape = tensorflow::TensorShape(body.outputs[i]);
    }
    for (const Update& update : body.updated) {
      results_[update.output].kept = false;
      results_[update.output].updates = update.input;
    }
    for (const OutputRole& role : roles.outputs) {
      if (role.kind != OutputRole::Kind::kStack) continue;
      Result& result = results_[role.result];
      // A row that comes twice would be read and written at once. Of results no key says whether they are aligned.
      const std::int64_t bytes = result.shape.num_elements() * tensorflow::DataTypeSize(result.type);
      const bool in_place = (role.row.numbered_by < 0 || !roles.results[role.result].kept) &&
                            (!placement.on_gpu || ShapeKey::AlignsRows(true, bytes));
      if (result.stack < 0 && in_place) result.stack = static_cast<int>(stacks_.size());
      stacks_.emplace_back(placement, role, result.type, result.shape);
    }
  }

  // Fails where an input changes its shape from the first iteration to the second.
  absl::Status CheckCarried(const std::vector<InputRole>& roles) const {
    for (const InputRole& role : roles) {
      if (role.kind != InputRole::Kind::kCarried) continue;
      if (ctx_->input(role.input).shape() == results_[role.result].shape) continue;
      return absl::InvalidArgumentError("a value that a loop carries changes its shape");
    }
    return absl::OkStatus();
  }

  // `expected`: iterations, if they are not known.
  absl::Status Allocate(std::int64_t expected) {
    for (std::size_t i = 0; i < results_.size(); ++i) {
      Result& result = results_[i];
      if (result.stack >= 0) continue;
      TF_RETURN_IF_ERROR(AllocateTemp(ctx_, placement_, result.type, result.shape, &result.turns[0]));
      if (result.kept) TF_RETURN_IF_ERROR(AllocateTemp(ctx_, placement_, result.type, result.shape, &result.turns[1]));
      for (int turn : {0, 1}) result.at[turn] = result.turns[result.kept ? turn : 0].data();
      if (result.updates < 0) continue;
      const tensorflow::Tensor& first = ctx_->input(roles_.body[result.updates].input);
      TF_RETURN_IF_ERROR(CopyBytes(placement_, result.at[0], first.data(), first.TotalBytes()));
    }
    for (LoopStack& stack : stacks_) TF_RETURN_IF_ERROR(stack.Begin(ctx_, expected));
    return absl::OkStatus();
  }

  // Of the last iteration that counts, as addresses.
  const Buffers::Pointers& latest() const { return latest_; }

  // Room for the rows of an iteration. What latest() has may move.
  absl::Status Reserve(std::int64_t iteration) {
    for (LoopStack& stack : stacks_) TF_RETURN_IF_ERROR(stack.Reserve(ctx_, iteration));
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (results_[i].stack >= 0) latest_[i] = stacks_[results_[i].stack].row();
    }
    return absl::OkStatus();
  }

  // Where the body is to leave the results of an iteration that there is room for. `numbers`: inputs of the body that
  // numbers rows, in host memory.
  absl::Status Point(std::int64_t iteration, const Buffers::Pointers& numbers, Buffers::Pointers* results) {
    for (LoopStack& stack : stacks_) TF_RETURN_IF_ERROR(stack.Point(iteration, numbers));
    results->resize(results_.size());
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const Result& result = results_[i];
      (*results)[i] = result.stack >= 0 ? stacks_[result.stack].row() : result.at[iteration % 2];
    }
    return absl::OkStatus();
  }

  // The body has left its results there, or will in stream order, and the iteration counts.
  absl::Status Keep(const Buffers::Pointers& results) {
    latest_ = results;
    for (const LoopStack& stack : stacks_) {
      if (stack.row() != latest_[stack.result()]) TF_RETURN_IF_ERROR(stack.Copy(latest_[stack.result()]));
    }
    return absl::OkStatus();
  }

  // Sets the op's outputs after so many iterations.
  absl::Status Deliver(std::int64_t iterations) {
    const int count = static_cast<int>(roles_.outputs.size());
    for (int i = 0; i < count; ++i) {  // before stacks move their rows
      const OutputRole& role = roles_.outputs[i];
      if (role.kind != OutputRole::Kind::kLast) continue;
      if (iterations == 0) {
        ctx_->set_output(i, ctx_->input(role.input));
      } else {
        TF_ASSIGN_OR_RETURN(const tensorflow::Tensor last, Last(role.result, iterations));
        ctx_->set_output(i, last);
      }
    }
    auto stack = stacks_.begin();
    for (int i = 0; i < count; ++i) {
      if (roles_.outputs[i].kind != OutputRole::Kind::kStack) continue;
      TF_ASSIGN_OR_RETURN(const tensorflow::Tensor rows, stack++->Finish(ctx_, iterations));
      ctx_->set_output(i, rows);
    }
    return absl::OkStatus();
  }

 private:
  struct Result {
    bool kept;  // while the body runs again
    tensorflow::DataType type;
    tensorflow::TensorShape shape;
    int stack = -1;  // into whose rows the body writes
    int updates = -1;  // the body's input whose value it is made of, in its memory
    tensorflow::Tensor turns[2];  // else its buffers: two if one is read while the other is written
    void* at[2];
  };

  absl::StatusOr<tensorflow::Tensor> Last(int number, std::int64_t iterations) const {
    const Result& result = results_[number];
    if (result.stack < 0) return result.turns[result.kept ? (iterations - 1) % 2 : 0];
    tensorflow::Tensor copy;
    TF_RETURN_IF_ERROR(AllocateTemp(ctx_, placement_, result.type, result.shape, &copy));
    TF_RETURN_IF_ERROR(CopyBytes(placement_, copy.data(), latest_[number], copy.TotalBytes()));
    return copy;
  }

  tensorflow::OpKernelContext* const ctx_;
  const Placement& placement_;
  const LoopRoles& roles_;
  absl::InlinedVector<Result, 8> results_;
  absl::InlinedVector<LoopStack, 4> stacks_;
  Buffers::Pointers latest_;
};

}  // namespace tf_stitch
