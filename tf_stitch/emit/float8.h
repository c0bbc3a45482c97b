// Of C and of CUDA C++; TFS_FUNCTION stands before a function, TFS_BITS_OF and TFS_FLOAT_OF take a float32 to its bits and
// back.
//
// Float8 as TensorFlow's casts have it (ml_dtypes): to the nearest, of two to the even one; what is too large becomes NaN in
// e4m3fn, which has no infinity, and infinite in e5m2; NaN keeps its sign. By integers and choices alone, so that compilers
// make vectors of it. Right also where subnormal floats are flushed to zero: those of float8 are none of float32.
TFS_FUNCTION uint8_t tfs_float8_e4m3fn_of(float f) {
  const int32_t bits = TFS_BITS_OF(f), magnitude = bits & 0x7fffffff;
  const int32_t tiny = TFS_BITS_OF(TFS_FLOAT_OF(magnitude) + 0x1p14f) - 0x46800000;  // from 2^14 on floats are 2^-9 apart
  const int32_t usual = (magnitude - (120 << 23) + 0x7ffff + ((magnitude >> 20) & 1)) >> 20;
  const int32_t small = magnitude < 0x3c800000 ? tiny : usual;
  return (uint8_t)((small < 0x7f ? small : 0x7f) | ((bits >> 24) & 0x80));
}
TFS_FUNCTION uint8_t tfs_float8_e5m2_of(float f) {
  const int32_t bits = TFS_BITS_OF(f), magnitude = bits & 0x7fffffff;
  const int32_t tiny = TFS_BITS_OF(TFS_FLOAT_OF(magnitude) + 0x1p7f) - 0x43000000;  // from 2^7 on floats are 2^-16 apart
  const int32_t usual = (magnitude - (112 << 23) + 0xfffff + ((magnitude >> 21) & 1)) >> 21;
  const int32_t small = magnitude < 0x38800000 ? tiny : usual;
  return (uint8_t)((small < 0x7c ? small : 0x7c) | (magnitude > 0x7f800000) << 1 | ((bits >> 24) & 0x80));
}
// The float32 of which a number of fewer bits is what it is of the float64: of the two neighbours of what is no float32, the
// one whose last bit is 1.
TFS_FUNCTION float tfs_to_odd(double x) {
  const float near = (float)x;
  const double back = near;
  const int32_t inexact = back != x && x == x, above = inexact && (back < 0 ? -back : back) > (x < 0 ? -x : x);
  return TFS_FLOAT_OF((TFS_BITS_OF(near) - above) | inexact);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 && !defined(TFS_WITHOUT_PTX)
// One instruction, and what it does otherwise: it gives the largest number for what is too large, and one NaN.
TFS_FUNCTION uint32_t tfs_to_float8_e4m3fn_pair(float low, float high) {
  uint16_t both;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(high), "f"(low));
  uint32_t pair = both;
  if (!(fabsf(low) <= 464.0f)) pair = (pair & 0xff00) | 0x7f | ((__float_as_uint(low) >> 24) & 0x80);
  if (!(fabsf(high) <= 464.0f)) pair = (pair & 0xff) | 0x7f00 | ((__float_as_uint(high) >> 16) & 0x8000);
  return pair;
}
TFS_FUNCTION uint32_t tfs_float8_e5m2_beyond(float f) {
  return (f != f ? 0x7e : 0x7c) | ((__float_as_uint(f) >> 24) & 0x80);
}
TFS_FUNCTION uint32_t tfs_to_float8_e5m2_pair(float low, float high) {
  uint16_t both;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(high), "f"(low));
  uint32_t pair = both;
  if (!(fabsf(low) < 61440.0f)) pair = (pair & 0xff00) | tfs_float8_e5m2_beyond(low);
  if (!(fabsf(high) < 61440.0f)) pair = (pair & 0xff) | tfs_float8_e5m2_beyond(high) << 8;
  return pair;
}
TFS_FUNCTION uint8_t tfs_to_float8_e4m3fn(float f) { return (uint8_t)tfs_to_float8_e4m3fn_pair(f, 0.0f); }
TFS_FUNCTION uint8_t tfs_to_float8_e5m2(float f) { return (uint8_t)tfs_to_float8_e5m2_pair(f, 0.0f); }
TFS_FUNCTION float tfs_from_float8_e4m3fn(uint8_t b) {
  uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((uint16_t)b));
  return tfs_from_half((uint16_t)halves);
}
#else
TFS_FUNCTION uint8_t tfs_to_float8_e4m3fn(float f) { return tfs_float8_e4m3fn_of(f); }
TFS_FUNCTION uint8_t tfs_to_float8_e5m2(float f) { return tfs_float8_e5m2_of(f); }
TFS_FUNCTION uint32_t tfs_to_float8_e4m3fn_pair(float low, float high) {
  return tfs_float8_e4m3fn_of(low) | (uint32_t)tfs_float8_e4m3fn_of(high) << 8;
}
TFS_FUNCTION uint32_t tfs_to_float8_e5m2_pair(float low, float high) {
  return tfs_float8_e5m2_of(low) | (uint32_t)tfs_float8_e5m2_of(high) << 8;
}
TFS_FUNCTION float tfs_from_float8_e4m3fn(uint8_t b) {
  const int32_t magnitude = b & 0x7f;
  const int32_t tiny = TFS_BITS_OF((float)magnitude * 0x1p-9f);
  const int32_t usual = magnitude == 0x7f ? 0x7fc00000 : (magnitude << 20) + (120 << 23);
  return TFS_FLOAT_OF((magnitude < 8 ? tiny : usual) | (int32_t)((uint32_t)(b & 0x80) << 24));
}
#endif
TFS_FUNCTION float tfs_from_float8_e5m2(uint8_t b) { return tfs_from_half((uint16_t)(b << 8)); }  // half of a half
