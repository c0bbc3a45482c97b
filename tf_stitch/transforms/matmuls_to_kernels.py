"""Gives matmuls to kernels of ours (families/matmul.py). Planning then puts what is around them into these kernels."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from tf_stitch.ir.graph import Node, TensorGraph, make_node
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.pass_manager import PassResult
from tf_stitch.transforms.rewriter import replace_chosen


@dataclass(frozen=True)
class MatmulsToKernels:
    """Marks matmuls.

    Attributes:
        chosen: which matmuls of a graph.
    """

    chosen: Callable[[TensorGraph], Collection[Node]]
    name: str = "matmuls_to_kernels"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return replace_chosen(graph, self.chosen(graph), in_kernel)


def in_a_loop(graph: TensorGraph) -> TensorGraph:
    """The graph of an iteration, its matmuls marked as those of a loop."""
    matmuls = [node for node in graph.nodes() if isinstance(node.attrs, DotAttrs)]
    marked = replace_chosen(graph, matmuls, _repeated).graph
    return TensorGraph(graph.name, marked.outputs, list(graph.unread)) if matmuls else graph


def _repeated(matmul: Node) -> Node:
    assert isinstance(matmul.attrs, DotAttrs)
    return make_node(matmul.kind, matmul.operands, replace(matmul.attrs, repeated=True), matmul.loc)


def in_kernel(matmul: Node) -> Node:
    """The same matmul, given to a kernel."""
    assert isinstance(matmul.attrs, DotAttrs)
    return make_node(matmul.kind, matmul.operands, replace(matmul.attrs, in_kernel=True), matmul.loc)
