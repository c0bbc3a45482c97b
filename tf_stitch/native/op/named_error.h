// The node behind an error, in the form by which TensorFlow's Python side finds the user's file and line.
#pragma once
#include <string>

#include "tensorflow/core/framework/op_kernel.h"

namespace tf_stitch {

// Whether TensorFlow will find a node in the message.
inline bool NamesNode(const absl::Status& status) { return absl::StrContains(status.message(), "{{node "); }

// The nodes of the user's that one of ours stands for, as its debug information has them.
inline std::string UsersNodes(const tensorflow::NodeDef& node) {
  const auto& info = node.experimental_debug_info();
  std::string names;
  for (int i = 0; i < info.original_node_names_size(); ++i) {
    if (i != 0) names += ", ";
    // TensorFlow goes down from function to function: each is named once.
    if (i < info.original_func_names_size() && (i == 0 || info.original_func_names(i) != info.original_func_names(i - 1)))
      names += absl::StrCat("{{function_node ", info.original_func_names(i), "}}");
    names += absl::StrCat("{{node ", info.original_node_names(i), "}}");
  }
  return names.empty() ? absl::StrCat("{{node ", node.name(), "}}") : names;
}

// An error of our own op. TensorFlow's ops have named their node.
inline absl::Status WithUsersNodes(const absl::Status& status, const tensorflow::NodeDef& node) {
  if (status.ok() || absl::IsCancelled(status) || NamesNode(status)) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), "\n\t [[", UsersNodes(node), " of ", node.name(),
                                                  "; run with TF_STITCH=0 to see TensorFlow's own]]"));
}

}  // namespace tf_stitch
