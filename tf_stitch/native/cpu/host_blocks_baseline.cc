// Matmuls for every processor.
#define TFS_EIGEN TfsEigenBaseline
#include "cpu/host_blocks_impl.h"

namespace tf_stitch {
const HostBlocks* BaselineBlocks() { return &kBlocks; }
}  // namespace tf_stitch
