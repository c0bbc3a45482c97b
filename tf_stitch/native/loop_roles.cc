#include "loop_roles.h"

#include <algorithm>
#include <stdexcept>

#include "word_reader.h"

namespace tf_stitch {
namespace {

constexpr int kMaxResults = 1 << 20;

class RoleReader : WordReader {
 public:
  RoleReader(const std::vector<std::int64_t>& words, int num_inputs) : WordReader(words), last_input_(num_inputs - 1) {}

  void Read(int num_outputs, LoopRoles* roles) {
    roles->body = Inputs("inputs of the body");
    roles->condition = Inputs("inputs of the condition");
    const std::int64_t outputs = Count("outputs");
    Require(outputs == num_outputs, "wrong number of outputs");
    for (std::int64_t i = 0; i < outputs; ++i) roles->outputs.push_back(Output());
    Require(AtEnd(), "words are left over");
    Require(std::all_of(used_.begin(), used_.end(), [](bool used) { return used; }), "a result of the body has no use");
    roles->results.resize(used_.size());
    for (const InputRole& role : roles->body) {
      if (role.kind == InputRole::Kind::kCarried) roles->results[role.result].kept = true;
    }
    for (const OutputRole& role : roles->outputs) {
      if (role.kind == OutputRole::Kind::kStack) roles->results[role.result].stacked = true;
    }
  }

 private:
  std::vector<InputRole> Inputs(const char* what) {
    const std::int64_t count = Count(what);
    std::vector<InputRole> roles;
    for (std::int64_t i = 0; i < count; ++i) {
      InputRole role{InputRole::Kind{Ranged("role of an input", 0, 2)}, Input(0)};
      if (role.kind == InputRole::Kind::kCarried) role.result = Result();
      if (role.kind == InputRole::Kind::kElement) role.backward = Way();
      roles.push_back(role);
    }
    return roles;
  }

  OutputRole Output() {
    if (Ranged("role of an output", 0, 1) == 0) {
      const int input = Input(0);
      return {OutputRole::Kind::kLast, Result(), input};
    }
    const int result = Result();
    const int rows = Input(-1);
    return {OutputRole::Kind::kStack, result, rows, Way()};
  }

  int Input(int lowest) { return static_cast<int>(Ranged("input", lowest, last_input_)); }

  int Result() {
    const auto result = static_cast<int>(Ranged("result of the body", 0, kMaxResults));
    if (static_cast<int>(used_.size()) <= result) used_.resize(result + 1);
    used_[result] = true;
    return result;
  }

  bool Way() { return Ranged("way", 0, 1) == 1; }

  const int last_input_;
  std::vector<bool> used_;  // results
};

}  // namespace

std::string LoopRoles::Parse(const std::vector<std::int64_t>& words, int num_inputs, int num_outputs) {
  try {
    RoleReader(words, num_inputs).Read(num_outputs, this);
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

}  // namespace tf_stitch
