"""A matmul with what is computed of its operands' elements before it and of its results' after it, as one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import DotAttrs, ReduceAttrs, TransposeAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir.index import Index, delinearize, linearize

REDUCED = 64
"""Elements that one of an operand may be the sum of: a thread adds them up wherever it needs the element."""


@dataclass(frozen=True)
class StitchedMatmul:
    """
    Attributes:
        matmul: the only one.
        after: nodes whose every element is made of the result's element at one place, operands first.
        before: nodes that operands are made of.
    """

    matmul: Node
    before: tuple[Node, ...]
    after: tuple[Node, ...]

    @property
    def transposed(self) -> tuple[bool, bool]:
        """Whether each operand is stored with its last two axes exchanged."""
        assert isinstance(self.matmul.attrs, DotAttrs)
        return self.matmul.attrs.transpose_a, self.matmul.attrs.transpose_b


def as_stitched_matmul(nodes: Sequence[Node]) -> StitchedMatmul | None:
    """These nodes, operands first, as one; None if they are not: several matmuls, none, or what moves or reduces
    results. Static sizes only."""
    matmuls = [n for n in nodes if n.kind is OpKind.DOT]
    if len(matmuls) != 1 or any(isinstance(d, SymbolicDim) for n in nodes for d in n.type.dims):
        return None
    matmul, = matmuls
    before: list[Node] = []
    after: dict[Node, None] = {matmul: None}
    for node in nodes:
        if node is matmul:
            continue
        made = any(operand in after for operand in node.operands)
        if node.category not in (Category.ELEMENTWISE, Category.MOVEMENT) and (made or not is_short_reduction(node)):
            return None
        if not made:
            before.append(node)
        elif keeps_place(node, after):
            after[node] = None
        else:
            return None
    return StitchedMatmul(matmul, tuple(before), tuple(n for n in after if n is not matmul))


def is_short_reduction(node: Node) -> bool:
    """Whether each element of a node is reduced from a few."""
    return isinstance(node.attrs, ReduceAttrs) and node.category is Category.REDUCTION \
        and 0 < node.operands[0].type.numel <= REDUCED * node.type.numel


def keeps_place(node: Node, results: Sequence[Node] | dict[Node, None]) -> bool:
    """Whether each element of a node is made of one element of a matmul's results, and each of these makes one.

    Args:
        results: what is made of the matmul so far.
    """
    if node.category is Category.ELEMENTWISE:
        return all(o.type.numel == node.type.numel for o in node.operands if o in results)
    return node.kind in (OpKind.RESHAPE, OpKind.TRANSPOSE)


def index_of(node: Node, place: dict[Node, tuple[Index, ...]]) -> tuple[Index, ...]:
    """Where the element of a node stands that is made of the matmul's at hand.

    Args:
        place: of what is made of the matmul before it.
    """
    source = next(o for o in node.operands if o in place)
    if isinstance(node.attrs, TransposeAttrs):
        return tuple(place[source][axis] for axis in node.attrs.perm)
    if node.type.dims == source.type.dims:
        return place[source]
    return delinearize(linearize(place[source], source.type.dims), node.type.dims)
