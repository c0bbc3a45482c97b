// Matmuls for processors with AVX2: build.py compiles this file for them where it can.
#ifdef __AVX2__
#define TFS_EIGEN TfsEigenAvx2
#include "cpu/host_blocks_impl.h"

namespace tf_stitch {
const HostBlocks* Avx2Blocks() { return &kBlocks; }
}  // namespace tf_stitch
#else
#include "cpu/host_blocks.h"

namespace tf_stitch {
const HostBlocks* Avx2Blocks() { return nullptr; }
}  // namespace tf_stitch
#endif
