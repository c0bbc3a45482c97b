"""A matmul whose result is only read transposed is the matmul of its transposed operands in the other order:
(x y)^T = y^T x^T. Libraries read matrices either way, and nothing is moved. Gradients of matmuls with transposed
weights are transposed so, such as those of a language model's embeddings that are its head, too."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.matrices import exchanges_last
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.rewriter import replace_chosen


@dataclass(frozen=True)
class TransposedResults:
    """Applies where nobody else needs the matmul."""

    name: str = "transposed_results"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        nodes = graph.nodes()
        users, wanted = users_of(nodes), {n for _, n in graph.outputs}
        chosen = {n for n in nodes if exchanges_last(n) and isinstance(n.operands[0].attrs, DotAttrs)
                  and len(users[n.operands[0]]) == 1 and n.operands[0] not in wanted}  # fmt: skip
        return replace_chosen(graph, chosen, _exchanged)


def _exchanged(transpose: Node) -> Node:
    matmul = transpose.operands[0]
    assert isinstance(matmul.attrs, DotAttrs)
    a, b = matmul.operands
    return Builder(matmul.loc).dot(b, a, not matmul.attrs.transpose_b, not matmul.attrs.transpose_a)
