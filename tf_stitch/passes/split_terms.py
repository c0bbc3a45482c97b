"""Small matmuls of very many terms, gradients of weights that a long batch reads, become matmuls of parts of the terms
and a sum: a library has too few blocks for them. What reads the result adds up the parts. (Split-K; CUTLASS and
cuBLASLt add the parts in kernels of their own, up to 32 of them.)

On an H200 (2026-11-28, cuBLASLt's fastest of all it proposes, split or whole, in a CUDA graph, us; then 64 parts,
without their sum): 50 x 50 of 25,600 terms 47.0 and 16.5, 64 x 64 of 65,536 31.8 and 17.8, 128 x 16 of 80,000 35.9 and
19.4, 128 x 128 of 32,768 30.3 and 16.2, 64 x 256 of 12,800 41.6 and 11.3; in bfloat16, whose parts would be rounded,
23.4 and 11.4, 26.0 and 23.9, 22.8 and 13.9, 18.1 and 12.6, 15.8 and 11.9.
"""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.matrices import is_in_kernel
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.rewriter import rewrite


@dataclass(frozen=True)
class SplitTerms:
    """Applies to static matmuls of float32 without a batch whose terms lie one after the other: parts are views.

    Attributes:
        least_terms, most_tiles: matmuls of fewer terms, or of more tiles of the result, stay.
        tile: rows and columns of a tile.
        parts: about this many, all equal: from half to twice as many.
    """

    least_terms: int
    most_tiles: int
    tile: int
    parts: int
    name: str = "split_terms"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return rewrite(graph, (self._split,))

    def _split(self, node: Node) -> Node | None:
        if not isinstance(node.attrs, DotAttrs) or not self._is_long(node, node.attrs):
            return None
        parts = self._parts(node.operands[0].type.dims[0])
        if parts is None:
            return None
        b = Builder(node.loc)
        x, y = (b.reshape(o, (parts, o.type.dims[0] // parts, o.type.dims[1])) for o in node.operands)
        return b.sum(b.dot(x, y, transpose_a=True), [0])

    def _is_long(self, matmul: Node, attrs: DotAttrs) -> bool:
        if not (matmul.type.is_static and all(o.type.is_static for o in matmul.operands)) or is_in_kernel(matmul):
            return False
        if matmul.type.dtype is not DType.F32 or matmul.type.rank != 2 or not attrs.transpose_a or attrs.transpose_b:
            return False
        rows, columns = (ceil_div(size, self.tile) for size in matmul.type.dims)
        return matmul.operands[0].type.dims[0] >= self.least_terms and 0 < rows * columns <= self.most_tiles

    def _parts(self, terms: int) -> int | None:
        even = [n for n in range(self.parts // 2, 2 * self.parts + 1) if terms % n == 0]
        return min(even, key=lambda n: max(n, self.parts) / min(n, self.parts), default=None)
