"""A sum over a batch of products x^T y is one product, of all rows of the batch.

TensorFlow's gradient of an Einsum makes such sums for its weights: of a batch of 64, 64 products as large as the
weights are written and added up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import DotAttrs, ReduceAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.pass_manager import PassResult
from tf_stitch.transforms.rewriter import rewrite


@dataclass(frozen=True)
class SumBatchedProducts:
    """Applies wherever the terms of each product lie one after the other, so that nothing has to be moved."""

    name: str = "sum_batched_products"

    def run(self, graph: TensorGraph) -> PassResult:
        return rewrite(graph, (_one_product,))


def _one_product(node: Node) -> Node | None:
    if node.kind is not OpKind.SUM or not isinstance(node.attrs, ReduceAttrs):
        return None
    products = node.operands[0]
    batch = products.type.rank - 2
    if not isinstance(products.attrs, DotAttrs) or node.attrs.axes != tuple(range(batch)) \
            or not products.attrs.transpose_a or products.attrs.transpose_b \
            or any(x.type.shape[:batch] != products.type.shape[:batch] for x in products.operands):
        return None
    b = Builder(products.loc)
    x, y = (b.reshape(o, (math.prod(o.type.dims[:-1]), o.type.dims[-1])) for o in products.operands)
    return b.dot(x, y, transpose_a=True)
