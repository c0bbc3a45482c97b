// The condition or the body of a loop in one call of its op: an executable that runs again and again.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "op/arena.h"
#include "op/launch.h"
#include "loop/loop_roles.h"
#include "cuda/matmul_settings.h"
#include "op/region_runtime.h"
#include "op/shape_key.h"
#include "op/workspace.h"

namespace tf_stitch {

class LoopPart {
 public:
  using Roles = std::vector<InputRole>;

  // The key for all iterations: shapes do not change. Inputs with rows have a rank of 1 at least.
  static ShapeKey Key(tensorflow::OpKernelContext* ctx, bool on_gpu, const Roles& roles,
                      const std::vector<ResultUse>& results) {
    ShapeKey key;
    for (const InputRole& role : roles) {
      const tensorflow::Tensor& input = ctx->input(role.input);
      const bool element = role.kind == InputRole::Kind::kElement;
      key.Add(input, element ? 1 : 0);
      const bool from_row = role.kind == InputRole::Kind::kCarried && results[role.result].stacked;
      const std::int64_t bytes = Bytes(role, input);
      if ((element || from_row) && !ShapeKey::AlignsRows(on_gpu, bytes)) key.MayLieAt(bytes);
    }
    if (on_gpu) AddMatmulSettings(&key);
    return key;
  }

  static Extents ExtentsOf(tensorflow::OpKernelContext* ctx, bool on_gpu, const Roles& roles,
                           std::vector<std::int64_t> output_items) {
    Extents extents;
    extents.on_gpu = on_gpu;
    extents.memory = MemoryOf(ctx);
    for (const InputRole& role : roles) extents.inputs.push_back(Bytes(role, ctx->input(role.input)));
    extents.output_items = std::move(output_items);
    return extents;
  }

  // `results`: of the body that it reads. `placement` and the rest outlive the part. `context`: of a GPU, current as
  // long as the part is used.
  LoopPart(tensorflow::OpKernelContext* ctx, const Placement& placement, CUcontext context, const Roles& roles,
           const std::vector<ResultUse>& results, const Executable& executable)
      : ctx_(ctx),
        placement_(placement),
        context_(context),
        executable_(executable),
        launcher_(ctx, placement, buffers_),
        as_graph_(!MovesCalls(roles, results, executable)) {
    buffers_.barriers = executable.barrier_memory.get();
    for (std::size_t i = 0; i < roles.size(); ++i) {
      const InputRole& role = roles[i];
      const tensorflow::Tensor& input = ctx->input(role.input);
      auto* data = static_cast<char*>(input.data());
      buffers_.inputs.push_back(data);
      if (role.kind == InputRole::Kind::kCarried) carried_.push_back({i, role.result});
      if (role.kind != InputRole::Kind::kElement) continue;
      const std::int64_t rows = input.dim_size(0), bytes = Bytes(role, input);
      if (role.row.numbered_by >= 0) numbered_.push_back({i, data, bytes, rows, role.row.numbered_by});
      else if (role.row.backward) elements_.push_back({i, data + (rows - 1) * bytes, -bytes, rows});
      else elements_.push_back({i, data, bytes, rows});
    }
  }
  LoopPart(const LoopPart&) = delete;
  LoopPart& operator=(const LoopPart&) = delete;

  absl::Status Allocate() { return arena_.Allocate(ctx_, placement_, executable_, &buffers_); }

  const Buffers::Pointers& inputs() const { return buffers_.inputs; }

  // Where the results of the next run go: to be set before it.
  Buffers::Pointers& results() { return buffers_.outputs; }
  const Buffers::Pointers& results() const { return buffers_.outputs; }

  // Points the inputs at the values of an iteration. `latest`: the body's results of the iteration before. `numbers`:
  // inputs of the body that numbers rows, in host memory; perhaps this one.
  absl::Status Point(std::int64_t iteration, const Buffers::Pointers& latest, const Buffers::Pointers& numbers) {
    if (iteration > 0) {
      for (const Carried& one : carried_) buffers_.inputs[one.input] = latest[one.result];
    }
    for (const Element& one : elements_) TF_RETURN_IF_ERROR(Point(iteration, one));
    for (const Element& one : numbered_) {
      TF_RETURN_IF_ERROR(Point(*static_cast<const std::int32_t*>(numbers[one.numbered_by]), one));
    }
    return absl::OkStatus();
  }

  absl::Status Run() {
    if (placement_.on_gpu) TF_RETURN_IF_ERROR(workspace_.Allocate(ctx_, executable_, &buffers_));
    return launcher_.Run(executable_, context_, as_graph_);
  }

 private:
  struct Carried {
    std::size_t input;
    int result;
  };
  struct Element {
    std::size_t input;
    char* first;        // row, in the order of iterations or of numbers
    std::int64_t step;  // bytes from one to the next
    std::int64_t rows;
    int numbered_by = -1;
  };

  // Whether a library call of the body reads or writes rows, which lie elsewhere in each iteration: a graph would have to be
  // given each time what the library enqueues, which takes the host longer than enqueueing it.
  static bool MovesCalls(const Roles& roles, const std::vector<ResultUse>& results, const Executable& executable) {
    const auto moves = [&](const Operand& operand) {
      if (operand.space == Space::kInput) {
        const InputRole& role = roles[operand.index];
        const bool from_row = role.kind == InputRole::Kind::kCarried && results[role.result].stacked;
        return from_row || role.kind == InputRole::Kind::kElement;
      }
      return operand.space == Space::kOutput && results[operand.index].stacked;
    };
    for (const Step& step : executable.steps) {
      const auto* call = std::get_if<LibraryStep>(&step);
      if (call != nullptr && std::any_of(call->args.begin(), call->args.end(), moves)) return true;
    }
    return false;
  }

  absl::Status Point(std::int64_t row, const Element& element) {
    if (row < 0 || row >= element.rows) return absl::OutOfRangeError("a loop reads a row that is not there");
    buffers_.inputs[element.input] = element.first + row * element.step;
    return absl::OkStatus();
  }

  // Of what the part reads in one iteration, also if there are no rows.
  static std::int64_t Bytes(const InputRole& role, const tensorflow::Tensor& input) {
    if (role.kind != InputRole::Kind::kElement) return static_cast<std::int64_t>(input.TotalBytes());
    std::int64_t bytes = tensorflow::DataTypeSize(input.dtype());
    for (int axis = 1; axis < input.dims(); ++axis) bytes *= input.dim_size(axis);
    return bytes;
  }

  tensorflow::OpKernelContext* const ctx_;
  const Placement& placement_;
  const CUcontext context_;
  const Executable& executable_;
  Buffers buffers_;
  Arena arena_;
  Workspace workspace_;
  Launcher launcher_;
  const bool as_graph_;
  absl::InlinedVector<Carried, 8> carried_;
  absl::InlinedVector<Element, 8> elements_;  // by iterations
  absl::InlinedVector<Element, 4> numbered_;
};

}  // namespace tf_stitch
