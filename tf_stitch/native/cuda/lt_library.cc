#include "cuda/lt_library.h"

#include "cuda/open_library.h"

namespace tf_stitch {

LtLibrary LoadLtLibrary(const std::vector<std::string>& candidates) {
  LtLibrary lt{};
  void* library = OpenLibrary({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"}, candidates);
  if (library == nullptr) {
    lt.error = "no cuBLASLt library";
    return lt;
  }
  const auto resolve = Resolver(library);
  const bool whole = resolve("cublasLtCreate", &lt.Create) && resolve("cublasLtMatmulDescCreate", &lt.DescCreate) &&
                     resolve("cublasLtMatmulDescDestroy", &lt.DescDestroy) &&
                     resolve("cublasLtMatmulDescSetAttribute", &lt.DescSet) &&
                     resolve("cublasLtMatrixLayoutCreate", &lt.LayoutCreate) &&
                     resolve("cublasLtMatrixLayoutSetAttribute", &lt.LayoutSet) &&
                     resolve("cublasLtMatrixLayoutDestroy", &lt.LayoutDestroy) &&
                     resolve("cublasLtMatmulPreferenceCreate", &lt.PreferenceCreate) &&
                     resolve("cublasLtMatmulPreferenceDestroy", &lt.PreferenceDestroy) &&
                     resolve("cublasLtMatmulPreferenceSetAttribute", &lt.PreferenceSet) &&
                     resolve("cublasLtMatmulAlgoGetHeuristic", &lt.Heuristic) &&
                     resolve("cublasLtMatmulAlgoConfigSetAttribute", &lt.AlgoSet) &&
                     resolve("cublasLtMatmulAlgoCheck", &lt.AlgoCheck) && resolve("cublasLtMatmul", &lt.Matmul);
  lt.error = whole ? "" : "this cuBLASLt lacks functions";
  return lt;
}

}  // namespace tf_stitch
