// Copies of variables, for nodes that write them where nobody may see it.
#pragma once
#include <optional>
#include <vector>

#include "cuda/cuda_driver.h"
#include "op/free_memory.h"
#include "op/placement.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_var.h"
#include "op/variables.h"

namespace tf_stitch {

// Bytes of all copies of a call, at most: nodes that write more are not timed. Where memory is limited, as on GPUs, a
// program takes hardly more for it; elsewhere the check has mattered more, for kernels of CPUs.
constexpr std::int64_t kMostCopied = std::int64_t{256} << 20, kMostCopiedOfLimited = std::int64_t{4} << 20;

// Replaces the handles among `inputs`, those of the op, that have these numbers by handles of copies. The variables are
// locked, and the last inputs. `context` is current to the stream of a GPU.
inline absl::Status CopyVariables(tensorflow::OpKernelContext* ctx, const Placement& placement, CUcontext context,
                                  const VariableSet& variables, const std::vector<int>& numbers,
                                  std::vector<tensorflow::Tensor>* inputs) {
  const int first = static_cast<int>(inputs->size()) - variables.size();
  TF_RETURN_IF_ERROR(variables.CheckValues(ctx, first));
  std::int64_t bytes = 0;
  for (const int number : numbers) {
    if (number < first || number >= static_cast<int>(inputs->size())) {
      return absl::InternalError("tf_stitch: the fallback subgraph writes what is no variable");
    }
    bytes += variables.tensor(number - first).TotalBytes();
  }
  const bool limited = MemoryOf(ctx).known();
  if (bytes > (limited ? kMostCopiedOfLimited : kMostCopied) || !HasRoomFor(ctx, bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("it writes variables, and copies of these would take ", bytes, " bytes"));
  }
  std::optional<ScopedContext> current;
  if (placement.on_gpu) current.emplace(context);
  tensorflow::AllocationAttributes once;  // else TensorFlow waits ten seconds for memory
  once.retry_on_failure = false;
  for (const int number : numbers) {
    const tensorflow::Tensor& value = variables.tensor(number - first);
    tensorflow::Tensor copy;
    TF_RETURN_IF_ERROR(VariableSet::AllocateLike(ctx, value, &copy, once));
    if (value.TotalBytes() != 0) {
      TF_RETURN_IF_ERROR(CopyBytes(placement, copy.data(), value.data(), value.TotalBytes()));
    }
    auto* variable = new tensorflow::Var(value.dtype());
    *variable->tensor() = copy;
    variable->is_initialized = true;
    tensorflow::Tensor handle(tensorflow::DT_RESOURCE, tensorflow::TensorShape({}));
    handle.scalar<tensorflow::ResourceHandle>()() = tensorflow::ResourceHandle::MakeRefCountingHandle(
        variable, ctx->device()->name(), {{value.dtype(), value.shape()}});
    (*inputs)[number] = handle;
  }
  return absl::OkStatus();
}

}  // namespace tf_stitch
