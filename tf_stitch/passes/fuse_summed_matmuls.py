"""Sums of matmuls become one matmul with longer sums: A1 B1 + A2 B2 = [A1 A2] [B1; B2].

Query, key and value of an attention layer come from one tensor, x. Its gradient is such a sum, of the gradients of the
three, A1 to A3, and their weights. Kernels write the three side by side as easily as apart. What else reads them then
reads them so: the gradients of the weights, x^T A1 and so on, are one matmul, as are the sums of columns that are the
gradients of the biases. Intermediate sums are neither written nor read, and a library has fewer last waves (see
horizontal_gemm_fusion.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from typing import TypeAlias

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, with_operands
from tf_stitch.ir.op_attrs import DotAttrs
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.summed_matmuls import SummedMatmuls, SummedMatmulsFinder

LARGE = 1 << 20
"""Bytes of each matrix that kernels write; smaller ones were not timed. Weights that lie side by side are copies, so
all of them may have no more bytes than these matrices."""
MOST_CYCLES = 64
"""That are looked for, one after the other; each takes a walk over the graph."""

New: TypeAlias = Mapping[Node, Node]
Make: TypeAlias = Callable[[Node, New], dict[Node, Node]]
"""Gives what stands for a node and others of its kind, from what stands for what the node needs."""


@dataclass(frozen=True)
class FuseSummedMatmuls:
    """Joins matmuls of which kernels compute the left matrices, where nobody else reads these."""

    name: str = "fuse_summed_matmuls"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        groups = [_Fused(found) for found in SummedMatmulsFinder(graph, LARGE).find()]
        for _ in range(MOST_CYCLES):
            if not groups:
                break
            try:
                return PassResult(_fused(graph, groups), modified=True)
            except CycleError as error:  # they would wait for themselves, or for each other
                groups = [g for g in groups if not any(node in error.args[1] for node, _, _ in g.replaced())]
        return PassResult(graph, modified=False)


class _Fused:
    """What stands for the nodes of a group."""

    def __init__(self, group: SummedMatmuls) -> None:
        self._group = group
        ends = accumulate(a.type.dims[1] for a in group.left)
        self._starts = [0, *ends]

    def replaced(self) -> Iterator[tuple[Node, Sequence[Node], Make]]:
        """Nodes that are made again, what they then need, and what makes them."""
        group = self._group
        yield group.total, [*group.others, *group.left, *group.right], self._total
        for node in group.gradients:
            yield node, [node.operands[0], *group.left], self._gradients
        for node, _ in group.columns:
            yield node, group.left, self._columns

    def _total(self, node: Node, new: New) -> dict[Node, Node]:
        attrs = self._group.matmuls[0].attrs
        assert isinstance(attrs, DotAttrs)
        b = Builder(node.loc)
        right = _beside(self._group.right, 1 if attrs.transpose_b else 0, new)
        total = b.reshape(b.dot(self._left(new), right, False, attrs.transpose_b), node.type.shape)
        for other in self._group.others:
            total = b.add(new[other], total)
        return {node: total}

    def _gradients(self, node: Node, new: New) -> dict[Node, Node]:
        assert isinstance(node.attrs, DotAttrs)
        fused = Builder(node.loc).dot(new[node.operands[0]], self._left(new), node.attrs.transpose_a, False)
        return {g: Builder(g.loc).slice(fused, (0, start), (1, 1), g.type.shape)
                for g, start in zip(self._group.gradients, self._starts, strict=False)}

    def _columns(self, node: Node, new: New) -> dict[Node, Node]:
        found: dict[Node, Node] = {}
        sums = Builder(node.loc).sum(self._left(new), [0])
        for one, place in self._group.columns:
            b = Builder(one.loc)
            part = b.slice(sums, (self._starts[place],), (1,), (self._group.left[place].type.dims[1],))
            found[one] = b.reshape(part, one.type.shape)
        return found

    def _left(self, new: New) -> Node:
        return _beside(self._group.left, 1, new)


def _fused(graph: TensorGraph, groups: Sequence[_Fused]) -> TensorGraph:
    """Raises CycleError if nodes of groups wait for each other."""
    needs: dict[Node, Sequence[Node]] = {node: node.operands for node in graph.nodes()}
    made_by: dict[Node, Make] = {}
    for group in groups:
        for node, needed, make in group.replaced():
            needs[node], made_by[node] = needed, make
    new: dict[Node, Node] = {}
    for node in TopologicalSorter(needs).static_order():
        if node not in new:
            new |= made_by.get(node, _as_before)(node, new)
    return TensorGraph(graph.name, [(key, new[n]) for key, n in graph.outputs], [new.get(n, n) for n in graph.unread])


def _as_before(node: Node, new: New) -> dict[Node, Node]:
    return {node: with_operands(node, tuple(new[o] for o in node.operands))}


def _beside(matrices: Sequence[Node], axis: int, new: New) -> Node:
    """Matrices side by side; equal ones become one node later (cse.py)."""
    return Builder(matrices[0].loc).concat([new[m] for m in matrices], axis)
