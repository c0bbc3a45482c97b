#include "loop/loop_roles.h"

#include <stdexcept>

#include "op/word_reader.h"

namespace tf_stitch {
namespace {

class RoleReader : WordReader {
 public:
  RoleReader(const std::vector<std::int64_t>& words, const RoleLimits& limits) : WordReader(words), limits_(limits) {}

  void Read(const LoopRoles* numbers, LoopRoles* roles) {
    const std::int64_t body_inputs = Count("inputs of the body");
    const int last_number = static_cast<int>(numbers == nullptr ? body_inputs : numbers->body.size()) - 1;
    roles->body = Inputs(body_inputs, last_number);
    const std::vector<InputRole>& numbering = numbers == nullptr ? roles->body : numbers->body;
    for (const InputRole& role : roles->body) RequireNumber(numbering, role.row);
    roles->condition = Inputs(Count("inputs of the condition"), /*last_number=*/-1);
    Require(Count("outputs") == limits_.num_outputs, "wrong number of outputs");
    for (int i = 0; i < limits_.num_outputs; ++i) {
      roles->outputs.push_back(Output(last_number));
      RequireNumber(numbering, roles->outputs.back().row);
    }
    Require(AtEnd(), "words are left over");
    roles->results.resize(limits_.num_results);
    for (const InputRole& role : roles->body) {
      if (role.kind == InputRole::Kind::kCarried) roles->results[role.result].kept = true;
    }
    for (const OutputRole& role : roles->outputs) {
      if (role.kind == OutputRole::Kind::kStack) roles->results[role.result].stacked = true;
    }
  }

 private:
  // `last_number`: input of the body that may number rows, -1 for none.
  std::vector<InputRole> Inputs(std::int64_t count, int last_number) {
    std::vector<InputRole> roles;
    for (std::int64_t i = 0; i < count; ++i) {
      InputRole role{InputRole::Kind{Ranged("role of an input", 0, 2)}, Input(limits_.inputs, 0)};
      if (role.kind == InputRole::Kind::kCarried) role.result = Result();
      if (role.kind == InputRole::Kind::kElement) role.row = Way(last_number);
      roles.push_back(role);
    }
    return roles;
  }

  OutputRole Output(int last_number) {
    const std::int64_t role = Ranged("role of an output", 0, 2);
    if (role == 0) {
      const int input = Input(limits_.inputs, 0);
      return {OutputRole::Kind::kLast, Result(), input};
    }
    const bool over = role == 2;
    const int result = Result();
    const int input = over ? Input(limits_.inputs, 0) : Input(limits_.counts, -1);
    return {OutputRole::Kind::kStack, result, input, Way(input < 0 ? -1 : last_number), over};
  }

  // -1 stays -1.
  int Input(const InputSpan& range, int lowest) {
    const auto number = static_cast<int>(Ranged("input", lowest, range.count - 1));
    return number < 0 ? number : range.first + number;
  }

  int Result() { return static_cast<int>(Ranged("result of the body", 0, limits_.num_results - 1)); }

  Row Way(int last_number) {
    const auto way = static_cast<int>(Ranged("way", 0, 2 + last_number));
    return {way == 1, way < 2 ? -1 : way - 2};
  }

  // What numbers a row has to be known before rows are.
  static void RequireNumber(const std::vector<InputRole>& body, const Row& row) {
    Require(row.numbered_by < 0 || body[row.numbered_by].row.numbered_by < 0, "a row's number is in a numbered row");
  }

  const RoleLimits limits_;
};

}  // namespace

std::string LoopRoles::Parse(const std::vector<std::int64_t>& words, const RoleLimits& limits,
                             const LoopRoles* numbers) {
  try {
    RoleReader(words, limits).Read(numbers, this);
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

std::string LoopRoles::Refuse(const Executable& executable) const {
  for (const Update& update : executable.updated) {
    for (int input = 0; input < static_cast<int>(body.size()); ++input) {
      const bool carries = body[input].kind == InputRole::Kind::kCarried && body[input].result == update.output;
      if (carries != (input == update.input)) return "a loop's body updates what it does not carry";
    }
    if (results[update.output].stacked) return "a loop's body updates a row";
  }
  return "";
}

}  // namespace tf_stitch
