"""Reductions whose last axes have one element are reductions without them: schedules ask the last axis whether
neighbours in memory are columns, or terms of one sum."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import ReduceAttrs
from tf_stitch.ir.op_kinds import Category
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.rewriter import rewrite


@dataclass(frozen=True)
class LastAxesOfOne:
    """Takes axes of one element behind the reduced ones away, and gives them back to the result: groups of one channel,
    as instance norms have them, and weights of rows."""

    name: str = "last_axes_of_one"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return rewrite(graph, (_without_last_axes,))


def _without_last_axes(node: Node) -> Node | None:
    if node.category is not Category.REDUCTION or not isinstance(node.attrs, ReduceAttrs):
        return None
    [x] = node.operands
    shape, axes = x.type.shape, node.attrs.axes
    rank = len(shape)
    while rank - 1 > max(axes) and shape[rank - 1] == 1:
        rank -= 1
    if rank == len(shape):
        return None
    b = Builder(node.loc)
    return b.reshape(b.reduce(node.kind, b.reshape(x, shape[:rank]), axes), node.type.shape)
