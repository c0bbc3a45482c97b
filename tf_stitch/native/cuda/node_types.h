// Types and shapes of our nodes' inputs and outputs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/types.h"

namespace tf_stitch {

// A shape function: what the attribute `output_shapes` says, if anything.
inline absl::Status OutputShapes(tensorflow::shape_inference::InferenceContext* c) {
  std::vector<tensorflow::PartialTensorShape> hints;
  TF_RETURN_IF_ERROR(c->GetAttr("output_shapes", &hints));
  const bool known = static_cast<int>(hints.size()) == c->num_outputs();
  for (int i = 0; i < c->num_outputs(); ++i) {
    tensorflow::shape_inference::ShapeHandle shape = c->UnknownShape();
    if (known) TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(hints[i], &shape));
    c->set_output(i, shape);
  }
  return absl::OkStatus();
}

// What all nodes of a region share: numbers of inputs and variables, then `types`, of inputs and outputs.
inline absl::StatusOr<std::vector<std::int32_t>> Signature(const std::string& node, int num_inputs, int num_variables,
                                                           const std::vector<tensorflow::DataType>& types) {
  std::vector<std::int32_t> signature{num_inputs, num_variables};
  for (const tensorflow::DataType type : types) {
    if (!tensorflow::DataTypeCanUseMemcpy(type)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tf_stitch: ", node, " has a tensor of type ", tensorflow::DataTypeString(type)));
    }
    signature.push_back(type);
  }
  return signature;
}

}  // namespace tf_stitch
