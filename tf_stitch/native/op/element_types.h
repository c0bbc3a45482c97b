// Numbers of TensorFlow's element types, for sources that do without its headers: those take seconds to compile.
#pragma once

namespace tf_stitch {

// As tensorflow::DataType has them (workers.cc compares).
enum ElementType : int { kFloat = 1, kDouble = 2, kBfloat16 = 14, kHalf = 19 };

// Bytes of an element of a library's operand.
constexpr int ElementBytes(int type) { return type == kDouble ? 8 : type == kFloat ? 4 : 2; }

}  // namespace tf_stitch
