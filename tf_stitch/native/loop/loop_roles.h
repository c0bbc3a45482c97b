// What the condition and the body of a loop read, and what becomes of the body's results, as data.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "op/executable.h"

namespace tf_stitch {

// Which row belongs to iteration i, counted from 0: row i.
struct Row {
  bool backward = false;  // row (rows - 1 - i)
  int numbered_by = -1;   // the row whose number is in this input of a body, an int32 scalar
};

// What an input of the body or of the condition is.
struct InputRole {
  enum class Kind : std::int64_t { kFixed, kCarried, kElement };
  Kind kind;
  int input;        // the op's: all there is, or the value of iteration 0, or the tensor that has rows
  int result = -1;  // kCarried: of the body, in the iteration before
  Row row;          // kElement
};

// What an output of the op is after n iterations.
struct OutputRole {
  enum class Kind : std::int64_t { kLast, kStack };
  Kind kind;
  int result;  // of the body: in the last iteration, or in each as a row
  int input;   // kLast: the op's that it is if n = 0. kStack: the one with the number of rows, -1 for n rows
  Row row;     // kStack
  bool over = false;  // kStack: rows that no iteration leaves are those of `input`, which has as many
};

// What becomes of a result of the body.
struct ResultUse {
  bool kept = false;     // while the body runs again, which reads it
  bool stacked = false;  // it is a row of an output
};

// Inputs of the op that follow each other.
struct InputSpan {
  int first;
  int count;
};

// What roles may name.
struct RoleLimits {
  InputSpan inputs;
  InputSpan counts;  // of rows: inputs, too
  int num_outputs;    // of the op
  int num_results;    // of the body
};

// Of the body that gives the op's outputs, or of the one that the host runs beside it, which has none of them.
struct LoopRoles {
  std::vector<InputRole> body;
  std::vector<InputRole> condition;
  std::vector<OutputRole> outputs;
  std::vector<ResultUse> results;

  // Decodes and checks `words` (bindings.py describes the encoding). `numbers`: whose body has the numbers of rows,
  // null: this one. Returns "" or what is wrong; after an error the roles must not be used.
  std::string Parse(const std::vector<std::int64_t>& words, const RoleLimits& limits, const LoopRoles* numbers);

  // Why the body must not run, "" if it may: it updates something else than what the iteration before left there, and
  // nobody else reads.
  std::string Refuse(const Executable& body) const;
};

}  // namespace tf_stitch
