"""A sum over a batch of matmuls x^T y is one matmul, of all rows of the batch.

TensorFlow's gradient of an Einsum makes such sums for its weights: of a batch of 64, 64 matmuls as large as the
weights are written and added up.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, users_of, with_operands
from tf_stitch.ir.matrices import transposed_layout
from tf_stitch.ir.op_attrs import DotAttrs, ReduceAttrs, TransposeAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.pass_manager import PassResult


@dataclass(frozen=True)
class FoldBatchIntoK:
    """Applies where nobody else needs the matmuls, and the terms of each lie one after the other, so that nothing has
    to be moved."""

    name: str = "fold_batch_into_k"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        nodes = graph.nodes()
        users, wanted = users_of(nodes), {n for _, n in graph.outputs}
        chosen = {n for n in nodes if _adds_matmuls(n) and _for_it_alone(n.operands[0], users[n.operands[0]], wanted)}
        if not chosen:
            return PassResult(graph, modified=False)
        new: dict[Node, Node] = {}
        for node in nodes:
            new[node] = _one_matmul(node.operands[0], new) if node in chosen else with_operands(
                node, tuple(new[o] for o in node.operands))
        return PassResult(TensorGraph(graph.name, [(key, new[n]) for key, n in graph.outputs]), modified=True)


def _adds_matmuls(node: Node) -> bool:
    if node.kind is not OpKind.SUM or not isinstance(node.attrs, ReduceAttrs):
        return False
    matmuls = node.operands[0]
    batch = matmuls.type.rank - 2
    return (isinstance(matmuls.attrs, DotAttrs) and node.attrs.axes == tuple(range(batch))
            and matmuls.attrs.transpose_a and not matmuls.attrs.transpose_b
            and all(x.type.shape[:batch] == matmuls.type.shape[:batch] for x in matmuls.operands)
            and not any(_is_read_transposed(x) for x in matmuls.operands))


def _for_it_alone(matmuls: Node, users: Sequence[Node], wanted: Collection[Node]) -> bool:
    return len(users) == 1 and matmuls not in wanted


def _is_read_transposed(operand: Node) -> bool:
    """Whether a library reads matrices where they lie before a transpose: their rows do not follow each other there."""
    return isinstance(operand.attrs, TransposeAttrs) and transposed_layout(operand) is not None


def _one_matmul(matmuls: Node, new: dict[Node, Node]) -> Node:
    b = Builder(matmuls.loc)
    x, y = (b.reshape(new[o], (math.prod(o.type.dims[:-1]), o.type.dims[-1])) for o in matmuls.operands)
    return b.dot(x, y, transpose_a=True)
