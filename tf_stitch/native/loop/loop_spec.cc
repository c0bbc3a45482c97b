#include "loop/loop_spec.h"

#include <string>

#include "op/region_names.h"

namespace tf_stitch {

using tensorflow::DataType;

absl::Status LoopSpec::Read(tensorflow::OpKernelConstruction* c) {
  std::int64_t token = 0;
  TF_RETURN_IF_ERROR(c->GetAttr("token", &token));
  TF_RETURN_IF_ERROR(c->GetAttr("region", &loop));
  TF_RETURN_IF_ERROR(c->GetAttr("condition", &condition));
  TF_RETURN_IF_ERROR(c->GetAttr("body", &body));
  TF_RETURN_IF_ERROR(c->GetAttr("host", &host));
  TF_RETURN_IF_ERROR(c->GetAttr("host_check", &host_check));
  TF_RETURN_IF_ERROR(c->GetAttr("split", &split));
  TF_RETURN_IF_ERROR(c->GetAttr("condition_on_host", &condition_on_host));
  for (const std::int64_t region : {loop, condition, body, host == -1 ? loop : host}) {
    const std::string refused = RefuseRegion(region, token);
    if (!refused.empty()) return absl::InvalidArgumentError(absl::StrCat("tf_stitch: ", c->def().name(), ": ", refused));
  }
  Types own_types;
  TF_RETURN_IF_ERROR(c->GetAttr("Tin", &own_types));
  num_inputs = static_cast<int>(own_types.size());
  inputs.assign(c->input_types().begin(), c->input_types().end());
  outputs.assign(c->output_types().begin(), c->output_types().end());
  if (host >= 0 ? !split : condition_on_host) {
    return absl::InvalidArgumentError(absl::StrCat("tf_stitch: nothing of ", c->def().name(), " is for the host"));
  }
  const InputSpan own{0, num_inputs}, for_host{num_inputs, c->num_inputs() - num_inputs};
  if (host >= 0) {
    TF_RETURN_IF_ERROR(Read(c, "host_roles", "host_results", for_host, for_host, 0, nullptr, &beside));
  }
  TF_RETURN_IF_ERROR(Read(c, "roles", "results", own, split ? for_host : own, c->num_outputs(),
                          split ? &beside.roles : nullptr, &main));
  if (TypesAgree()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tf_stitch: types of ", c->def().name(), " contradict its roles"));
}

absl::Status LoopSpec::Read(tensorflow::OpKernelConstruction* c, const char* roles, const char* results,
                            const InputSpan& inputs, const InputSpan& counts, int num_outputs,
                            const LoopRoles* numbers, LoopSide* side) const {
  std::vector<std::int64_t> words;
  TF_RETURN_IF_ERROR(c->GetAttr(roles, &words));
  TF_RETURN_IF_ERROR(c->GetAttr(results, &side->results));
  for (const DataType type : side->results) side->items.push_back(tensorflow::DataTypeSize(type));
  const RoleLimits limits{inputs, counts, num_outputs, static_cast<int>(side->results.size())};
  const std::string wrong = side->roles.Parse(words, limits, numbers);
  if (wrong.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tf_stitch: ", roles, " of ", c->def().name(), ": ", wrong));
}

bool LoopSpec::TypesAgree() const {
  bool agree = host_check < 0 || (host_check < static_cast<std::int64_t>(beside.results.size()) &&
                                  beside.results[host_check] == tensorflow::DT_BOOL);
  const auto is_number = [&](const Row& row) {
    return row.numbered_by < 0 || inputs[numbering().roles.body[row.numbered_by].input] == tensorflow::DT_INT32;
  };
  for (const LoopSide* side : {&main, &beside}) {
    for (const auto* roles : {&side->roles.body, &side->roles.condition}) {
      for (const InputRole& role : *roles) {
        agree &= is_number(role.row);
        if (role.kind == InputRole::Kind::kCarried) agree &= inputs[role.input] == side->results[role.result];
      }
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OutputRole& role = main.roles.outputs[i];
    const DataType type = main.results[role.result];
    agree &= is_number(role.row) && outputs[i] == type;
    const bool count = role.kind == OutputRole::Kind::kStack && !role.over;
    if (role.input >= 0) agree &= inputs[role.input] == (count ? tensorflow::DT_INT32 : type);
  }
  return agree;
}

bool LoopSpec::RanksAgree(tensorflow::OpKernelContext* ctx) const {
  bool agree = true;
  const auto rank = [&](const InputRole& role) {
    return ctx->input(role.input).dims() - (role.kind == InputRole::Kind::kElement ? 1 : 0);
  };
  const auto is_number = [&](const Row& row) {
    return row.numbered_by < 0 || rank(numbering().roles.body[row.numbered_by]) == 0;
  };
  for (const LoopSide* side : {&main, &beside}) {
    for (const auto* roles : {&side->roles.body, &side->roles.condition}) {
      for (const InputRole& role : *roles) agree &= rank(role) >= 0 && is_number(role.row);
    }
  }
  for (const OutputRole& role : main.roles.outputs) agree &= is_number(role.row);
  return agree;
}

bool LoopSpec::LeavesNoTrace() const {
  for (const OutputRole& role : main.roles.outputs) {
    if (role.row.numbered_by >= 0) return false;
  }
  return true;
}

}  // namespace tf_stitch
