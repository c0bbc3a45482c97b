// A cuBLASLt that only keeps books: of what lives, and of the alignments that proposals were asked for.
#include <cstddef>
#include <cstdint>

namespace {

int live = 0, matmuls = 0;
int refused_matmuls = 0;                     // the next ones
bool refuse = false;                          // to set a descriptor
std::uint32_t alignments[4] = {0, 0, 0, 0};  // of A, B, C and D
std::uintptr_t bias = 0;
std::uintptr_t scales[2] = {0, 0};  // of A and B
std::int32_t transposed[2] = {0, 0};
std::int64_t layouts[4][4] = {};  // of the last four made: type, rows, columns, stride

int Make(void** made) { return *made = new char, ++live, 0; }
int Destroy(void* made) { return delete static_cast<char*>(made), --live, 0; }

}  // namespace

extern "C" {

int fake_live() { return live; }
int fake_matmuls() { return matmuls; }
void fake_refuse_matmuls(int count) { refused_matmuls = count; }
void fake_refuse(bool wanted) { refuse = wanted; }
const std::uint32_t* fake_alignments() { return alignments; }
std::uintptr_t fake_bias() { return bias; }

const std::uintptr_t* fake_scales() { return scales; }
const std::int32_t* fake_transposed() { return transposed; }
const std::int64_t* fake_layout(int number) { return layouts[number]; }

int cublasLtCreate(void** handle) { return *handle = &live, 0; }
int cublasLtMatmulDescCreate(void** desc, int, int) { return Make(desc); }
int cublasLtMatmulDescDestroy(void* desc) { return Destroy(desc); }
int cublasLtMatmulDescSetAttribute(void*, int attribute, const void* value, std::size_t) {
  if (attribute == 3 || attribute == 4) transposed[attribute - 3] = *static_cast<const std::int32_t*>(value);
  if (attribute == 17 || attribute == 18) scales[attribute - 17] = *static_cast<const std::uintptr_t*>(value);
  if (attribute == 8) bias = *static_cast<const std::uintptr_t*>(value);
  return refuse ? 7 : 0;
}
int cublasLtMatrixLayoutCreate(void** layout, int type, std::uint64_t rows, std::uint64_t columns,
                               std::int64_t stride) {
  const std::int64_t made[] = {type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), stride};
  for (int i = 0; i < 4; ++i) {
    for (int earlier = 0; earlier < 3; ++earlier) layouts[earlier][i] = layouts[earlier + 1][i];
    layouts[3][i] = made[i];
  }
  return Make(layout);
}
int cublasLtMatrixLayoutSetAttribute(void*, int, const void*, std::size_t) { return 0; }
int cublasLtMatrixLayoutDestroy(void* layout) { return Destroy(layout); }
int cublasLtMatmulPreferenceCreate(void** preference) { return Make(preference); }
int cublasLtMatmulPreferenceDestroy(void* preference) { return Destroy(preference); }
int cublasLtMatmulPreferenceSetAttribute(void*, int attribute, const void* value, std::size_t) {
  if (attribute >= 5) alignments[attribute - 5] = *static_cast<const std::uint32_t*>(value);
  return 0;
}
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, void*, int* found) {
  return *found = 2, 0;  // all zeros: they are possible
}
int cublasLtMatmulAlgoConfigSetAttribute(void*, int, const void*, std::size_t) { return 0; }
int cublasLtMatmulAlgoCheck(void*, void*, void*, void*, void*, void*, const void*, void*) { return 0; }
int cublasLtMatmul(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*,
                   void*, void*, const void*, void*, std::size_t, void*) {
  if (refused_matmuls > 0) return --refused_matmuls, 15;
  return ++matmuls, 0;
}

}  // extern "C"
