"""A matmul with what is computed of its operands' elements before it and of its results' after it, as one kernel."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import DotAttrs, ReduceAttrs, SliceAttrs, TransposeAttrs
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
        after: nodes whose every element is made of the result's element at one place, or of those at one place of each
            gate, operands first.
        before: nodes that operands are made of.
        gates: equal parts of the result's columns that are cut out after it, as recurrent cells do; 1: none are.
        uncut: of `after`, what has an element for each one of the result, whatever is cut out of it.
    """

    matmul: Node
    before: tuple[Node, ...]
    after: tuple[Node, ...]
    gates: int = 1
    uncut: frozenset[Node] = frozenset()

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
    uncut = {matmul}
    for node in nodes:
        if node is matmul:
            continue
        made = any(operand in after for operand in node.operands)
        if made and is_gate(node, uncut, matmul):
            after[node] = None
            continue
        if node.category not in (Category.ELEMENTWISE, Category.MOVEMENT) and (made or not is_short_reduction(node)):
            return None
        if not made:
            before.append(node)
        elif keeps_place(node, after):
            after[node] = None
            if any(operand in uncut for operand in node.operands):
                uncut.add(node)
        else:
            return None
    gates = {matmul.type.numel // n.type.numel for n in after if n not in uncut}
    if len(gates) > 1:
        return None
    return StitchedMatmul(matmul, tuple(before), tuple(n for n in after if n is not matmul), min(gates, default=1),
                          frozenset(uncut - {matmul}))


def is_gate(node: Node, uncut: Collection[Node], matmul: Node) -> bool:
    """Whether a node is one of several equal parts of the columns of a matmul's results.

    Args:
        uncut: what has an element for each result.
    """
    attrs, source = node.attrs, node.operands[0] if node.operands else None
    if not isinstance(attrs, SliceAttrs) or source not in uncut or matmul.type.rank != 2:
        return False
    while source is not None and source is not matmul:
        if source.type.dims[-1:] != matmul.type.dims[-1:] or source.kind is OpKind.TRANSPOSE:
            return False
        source = next((o for o in source.operands if o in uncut), None)
    *outer, columns = node.type.dims
    *whole, all_columns = node.operands[0].type.dims
    *before, first = attrs.begin
    return outer == whole and 0 < columns < all_columns and not all_columns % columns and not first % columns \
        and not any(before) and set(attrs.strides) == {1}


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
    if isinstance(node.attrs, SliceAttrs):
        return place[source]  # of the first gate: the columns of the others are as many further on
    if isinstance(node.attrs, TransposeAttrs):
        return tuple(place[source][axis] for axis in node.attrs.perm)
    if node.type.dims == source.type.dims:
        return place[source]
    return delinearize(linearize(place[source], source.type.dims), node.type.dims)
