// Matmuls for processors with AVX-512: build.py compiles this file for them where it can.
#ifdef __AVX512F__
#define TFS_EIGEN TfsEigenAvx512
#include "cpu/host_blocks_impl.h"

namespace tf_stitch {
const HostBlocks* Avx512Blocks() { return &kBlocks; }
}  // namespace tf_stitch
#else
#include "cpu/host_blocks.h"

namespace tf_stitch {
const HostBlocks* Avx512Blocks() { return nullptr; }
}  // namespace tf_stitch
#endif
