// What a loop's node says of it: its regions, and what is done with its inputs, outputs and results.
#pragma once
#include <cstdint>
#include <vector>

#include "loop/loop_roles.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {

// A body with what it carries: the one that gives the outputs, or the one that the host runs beside it.
struct LoopSide {
  LoopRoles roles;
  std::vector<tensorflow::DataType> results;  // of the body: types
  std::vector<std::int64_t> items;            // bytes of one element of each
};

struct LoopSpec {
  using Types = std::vector<tensorflow::DataType>;

  std::int64_t loop = 0, condition = 0, body = 0;  // numbers of regions
  std::int64_t host = -1;                          // -1: the host has no body
  std::int64_t host_check = -1;  // the result of the host's body that is true where an iteration may run; -1: it may
  bool split = false;  // numbers of rows, and how many there are, are for the host to read
  bool condition_on_host = false;
  LoopSide main;
  LoopSide beside;  // the host's, without roles if there is none
  Types inputs;     // of the op: first those that the loop's own nodes have, then copies for the host
  Types outputs;
  int num_inputs = 0;  // of the former

  // Reads and checks a node's attributes; after an error the object must not be used.
  absl::Status Read(tensorflow::OpKernelConstruction* c);

  // Whether what rows are taken of has a rank, and what numbers rows has none.
  bool RanksAgree(tensorflow::OpKernelContext* ctx) const;

  // Whether an iteration that does not count leaves no trace.
  bool LeavesNoTrace() const;

  // The body whose results the condition reads.
  const LoopSide& conditional() const { return condition_on_host ? beside : main; }

 private:
  // The body whose inputs number rows.
  const LoopSide& numbering() const { return split ? beside : main; }
  absl::Status Read(tensorflow::OpKernelConstruction* c, const char* roles, const char* results,
                    const InputSpan& inputs, const InputSpan& counts, int num_outputs, const LoopRoles* numbers,
                    LoopSide* side) const;
  bool TypesAgree() const;
};

}  // namespace tf_stitch
