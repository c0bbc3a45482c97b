"""Nodes that compute some rows of what others compute: one of several equal parts along the first axis."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

from tf_stitch.errors import ScheduleError
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, make_node, view_of
from tf_stitch.ir.op_attrs import (
    Attrs,
    AxisAttrs,
    ConstantAttrs,
    DotAttrs,
    ExtentAttrs,
    IotaAttrs,
    PadAttrs,
    ReduceAttrs,
    ShapeAttrs,
    SliceAttrs,
    TransposeAttrs,
)
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.planning.pattern import Pattern


@dataclass
class Piece:
    """One of several equal parts of all rows.

    Attributes:
        there: what lies in memory of this piece, by the values whose rows it is.
    """

    number: int
    of: int
    there: dict[Node, Node] = field(default_factory=dict)


class RowNodes:
    """Nodes that compute a piece of a pattern's values.

    Args:
        pieced: all nodes that are made of what is computed in pieces.

    Attributes:
        nodes: operands first.
    """

    def __init__(self, pattern: Pattern, piece: Piece, pieced: Collection[Node]) -> None:
        self._members, self._free = frozenset(pattern.nodes), pattern.free
        self._piece, self._pieced = piece, pieced
        self._rows: dict[Node, Node] = {}
        self._wholes: dict[Node, Node] = {}
        self.nodes: list[Node] = []

    def rows(self, node: Node) -> Node:
        """The piece of a value.

        Raises:
            ScheduleError: its rows are not computed by themselves, or have no equal parts.
        """
        if node in self._piece.there:
            return self._piece.there[node]
        if node not in self._rows:
            if node.type.rank == 0 or int(node.type.dims[0]) % self._piece.of:
                raise ScheduleError(f"{node}: no {self._piece.of} pieces of it", node.loc)
            inside = node in self._members or node in self._pieced
            self._rows[node] = self._add(self._computed(node) if inside else self._sliced(node))
        return self._rows[node]

    def whole(self, node: Node) -> Node:
        """A value that no row changes.

        Raises:
            ScheduleError: rows do.
        """
        if node in self._pieced:
            raise ScheduleError(f"{node}: a row needs others", node.loc)
        if node not in self._members:
            return node
        if node not in self._wholes:
            operands = tuple(map(self.whole, node.operands))
            self._wholes[node] = self._add(Node(node.kind, operands, node.attrs, node.type, node.loc))
        return self._wholes[node]

    def partial(self, node: Node) -> Node:
        """The sum over the rows of the piece, where a value is the sum over all (see `is_total`)."""
        return self._add(make_node(node.kind, map(self.rows, node.operands), node.attrs, node.loc))

    def _add(self, node: Node) -> Node:
        self.nodes.append(node)
        return node

    def _count(self, node: Node) -> int:
        """Rows of the piece."""
        return int(node.type.dims[0]) // self._piece.of

    def _sliced(self, node: Node) -> Node:
        rest, count = [int(d) for d in node.type.dims[1:]], self._count(node)
        begin = (self._piece.number * count, *(0 for _ in rest))
        return Builder(node.loc).slice(self._viewed(node), begin, (1,) * node.type.rank, (count, *rest))

    def _viewed(self, node: Node) -> Node:
        """A value as somebody reads it who needs a part of it. What was another shape of what lies in memory becomes a
        node of this group: a kernel may have to make it."""
        if node.kind is not OpKind.RESHAPE or node not in self._free:
            return node
        return self._add(Node(node.kind, (self._viewed(node.operands[0]),), node.attrs, node.type, node.loc))

    def _computed(self, node: Node) -> Node:
        shape, attrs = (self._count(node), *node.type.dims[1:]), node.attrs
        match node.kind:
            case OpKind.GATHER:
                return self._gathered(node)
            case OpKind.DOT if isinstance(attrs, DotAttrs) and node.type.rank == 2 and not attrs.transpose_a:
                return self._like(node, (self.rows(node.operands[0]), self.whole(node.operands[1])), attrs)
            case OpKind.RESHAPE:
                return self._like(node, (self.rows(node.operands[0]),), ShapeAttrs(shape))
            case OpKind.BROADCAST:
                return self._like(node, (self._aligned(node, node.operands[0]),), ShapeAttrs(shape))
            case OpKind.PAD if isinstance(attrs, PadAttrs) and attrs.low[0] == attrs.high[0] == 0:
                return self._like(node, (self.rows(node.operands[0]), self.whole(node.operands[1])), attrs)
            case OpKind.SLICE if isinstance(attrs, SliceAttrs) and attrs.strides[0] == 1 \
                    and attrs.sizes[0] == node.operands[0].type.dims[0]:
                cut = SliceAttrs(attrs.begin, attrs.strides, (shape[0], *attrs.sizes[1:]))
                return self._like(node, (self.rows(node.operands[0]),), cut)
        by_rows = (node.category is Category.REDUCTION and isinstance(attrs, ReduceAttrs) and 0 not in attrs.axes) \
            or (isinstance(attrs, TransposeAttrs) and attrs.perm[0] == 0) \
            or (node.kind is OpKind.CONCAT and isinstance(attrs, AxisAttrs) and attrs.axis != 0)
        if by_rows:
            return self._like(node, tuple(map(self.rows, node.operands)), attrs)
        if node.category is Category.ELEMENTWISE:
            return self._like(node, tuple(self._aligned(node, operand) for operand in node.operands), attrs)
        raise ScheduleError(f"{node}: computes no row by itself", node.loc)

    def _like(self, node: Node, operands: tuple[Node, ...], attrs: Attrs) -> Node:
        return make_node(node.kind, operands, attrs, node.loc)

    def _aligned(self, node: Node, operand: Node) -> Node:
        """An operand that is broadcast to a value: its rows, or all of one that is the same for each."""
        has_rows = operand.type.rank == node.type.rank and operand.type.dims[0] == node.type.dims[0]
        return self.rows(operand) if has_rows else self.whole(operand)

    def _gathered(self, node: Node) -> Node:
        """By the rows of indices; from one table for all, or each from its own row: the logit of a label."""
        table, index = node.operands
        if table not in self._pieced:
            return self._like(node, (self.whole(table), self.rows(index)), node.attrs)
        columns = _columns_of_rows(index)
        if table.type.rank != 1 or columns is None or columns * int(index.type.numel) != table.type.numel:
            raise ScheduleError(f"{node}: reads rows of others", node.loc)
        first = self._piece.number * int(index.type.numel) // self._piece.of * columns
        b = Builder(node.loc)
        within = self._add(b.sub(self.rows(index), self._add(b.constant(first, index.type.dtype))))
        return self._like(node, (self.rows(table), within), node.attrs)


def is_total(node: Node) -> bool:
    """Whether a value is a sum over rows, so that those of pieces add up to it."""
    if isinstance(node.attrs, DotAttrs):
        return node.type.rank == 2 and node.attrs.transpose_a and not node.attrs.transpose_b
    return node.kind is OpKind.SUM and isinstance(node.attrs, ReduceAttrs) and 0 in node.attrs.axes


def _columns_of_rows(index: Node) -> int | None:
    """Of indices each of which counts the elements of its own row behind those of all rows before it (see _of_labels
    in frontend/tensorflow/legalize/losses.py): elements of a row. None for others."""
    for before in index.operands if index.kind is OpKind.ADD else ():
        position, columns = before.operands if before.kind is OpKind.MUL else (before, before)
        attrs = view_of(position).attrs
        counts = isinstance(attrs, IotaAttrs) and (attrs.axis == -1 or position.type.rank == 1)
        if counts and position.type.numel == index.type.numel and (found := _number(columns)) is not None:
            return found
    return None


def _number(node: Node) -> int | None:
    """What one element is, if that is known."""
    if isinstance(node.attrs, ExtentAttrs):
        return math.prod(d for d in node.attrs.shape if isinstance(d, int))
    return int(node.attrs.value.item()) if isinstance(node.attrs, ConstantAttrs) and node.type.numel == 1 else None
