// A body of a loop in one call of its op: it runs again and again on values that it carries itself.
#pragma once
#include <vector>

#include "loop/loop_part.h"
#include "loop/loop_results.h"

namespace tf_stitch {

class LoopBody {
 public:
  // The arguments outlive the body; see LoopPart and LoopResults. `ahead`: iterations may begin and then not count.
  LoopBody(tensorflow::OpKernelContext* ctx, const Placement& placement, CUcontext context, const LoopRoles& roles,
           const Executable& executable, const std::vector<tensorflow::DataType>& types, bool ahead)
      : roles_(roles),
        part_(ctx, placement, context, roles.body, roles.results, executable),
        results_(ctx, placement, roles, executable, types, ahead) {}

  // `expected`: iterations, if they are not known.
  absl::Status Allocate(std::int64_t expected) {
    TF_RETURN_IF_ERROR(results_.CheckCarried(roles_.condition));
    TF_RETURN_IF_ERROR(results_.CheckCarried(roles_.body));
    TF_RETURN_IF_ERROR(part_.Allocate());
    return results_.Allocate(expected);
  }

  const Buffers::Pointers& inputs() const { return part_.inputs(); }

  // Results of the last iteration that counts, as addresses.
  const Buffers::Pointers& latest() const { return results_.latest(); }

  // Where the iteration at hand leaves its results.
  const Buffers::Pointers& results() const { return part_.results(); }

  // Takes the values of an iteration. `numbers`: inputs of the body that numbers rows, which has taken its values
  // before, in host memory; perhaps of this one.
  absl::Status Point(std::int64_t iteration, const Buffers::Pointers& numbers) {
    TF_RETURN_IF_ERROR(results_.Reserve(iteration));
    TF_RETURN_IF_ERROR(part_.Point(iteration, results_.latest(), numbers));
    return results_.Point(iteration, numbers, &part_.results());
  }

  absl::Status Run() { return part_.Run(); }

  // The iteration counts.
  absl::Status Keep() { return results_.Keep(part_.results()); }

  // Sets the op's outputs after so many iterations.
  absl::Status Deliver(std::int64_t iterations) { return results_.Deliver(iterations); }

 private:
  const LoopRoles& roles_;
  LoopPart part_;
  LoopResults results_;
};

}  // namespace tf_stitch
