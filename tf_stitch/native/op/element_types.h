// Numbers of TensorFlow's element types, for sources that do without its headers: those take seconds to compile.
#pragma once

namespace tf_stitch {

// As tensorflow::DataType has them (workers.cc compares).
enum ElementType : int { kFloat = 1, kDouble = 2, kBfloat16 = 14, kHalf = 19, kFloat8E5m2 = 24, kFloat8E4m3fn = 25 };

constexpr bool IsFloat8(int type) { return type == kFloat8E5m2 || type == kFloat8E4m3fn; }

// Bytes of an element of a library's operand.
constexpr int ElementBytes(int type) { return type == kDouble ? 8 : type == kFloat ? 4 : IsFloat8(type) ? 1 : 2; }

}  // namespace tf_stitch
