// Where the operands of one run are.
#pragma once
#include "absl/container/inlined_vector.h"
#include "op/executable.h"

namespace tf_stitch {

struct Buffers {
  using Pointers = absl::InlinedVector<void*, 16>;
  Pointers inputs;
  Pointers outputs;
  Pointers variables;
  Pointers fresh;
  Pointers arena;             // its segments
  char* barriers = nullptr;   // Executable::barrier_memory
  char* workspace = nullptr;  // for matmuls on a GPU
  std::size_t workspace_bytes = 0;

  bool operator==(const Buffers& other) const {
    return inputs == other.inputs && outputs == other.outputs && variables == other.variables &&
           fresh == other.fresh && arena == other.arena && workspace == other.workspace;
  }

  void* At(const Operand& operand) const {
    switch (operand.space) {
      case Space::kInput:
        return inputs[operand.index];
      case Space::kOutput:
        return outputs[operand.index];
      case Space::kVariable:
        return variables[operand.index];
      case Space::kFresh:
        return fresh[operand.index];
      case Space::kArena:
        return static_cast<char*>(arena[operand.segment]) + operand.index;
      case Space::kBarrier:
        return barriers + operand.index * kBarrierBytes;
    }
    return nullptr;
  }
};

}  // namespace tf_stitch
