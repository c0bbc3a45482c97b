"""Channels last for what lies between convolutions.

TensorFlow puts channels before the axes of images on GPUs for float32, and the convolutions of the IR have them last.
So a convolution's result is transposed, goes through a batch norm, an activation and a sum, and is transposed again for
the next one. Here what is made of a transposed result is computed as it lies; a transpose is left where a value comes
in otherwise, or is needed otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, make_node, view_of, with_operands
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.types import Shape, static_shape
from tf_stitch.pass_manager import PassResult

T = TypeVar("T")


@dataclass(frozen=True)
class ChannelsLast:
    """Computes graphs with convolutions with channels last."""

    name: str = "channels_last"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        nodes = graph.nodes()
        layouts = _Layouts({n.type.rank for n in nodes if n.category is Category.CONVOLUTION})
        if not any(map(layouts.is_turned_first, nodes)):
            return PassResult(graph, False)
        for node in nodes:
            layouts.add(node)
        return PassResult(TensorGraph(graph.name, [(k, layouts.as_it_was(n)) for k, n in graph.outputs]), True)


def _last(rank: int) -> tuple[int, ...]:
    """Axes of channels first in the order of channels last: [n, c, h, w] -> [n, h, w, c]."""
    return (0, *range(2, rank), 1)


def _first(rank: int) -> tuple[int, ...]:
    """The opposite."""
    return (0, rank - 1, *range(1, rank - 1))


def _keeps_order(shape: Shape) -> bool:
    """Whether all axes that have elements are in the same order with channels last."""
    kept = [axis for axis in _last(len(shape)) if shape[axis] != 1]
    return kept == sorted(kept)


def _moved(values: Sequence[T]) -> tuple[T, ...]:
    """What belongs to axes, with channels last."""
    return tuple(values[axis] for axis in _last(len(values)))


class _Layouts:
    """New values of a graph's nodes, each in one layout or in both.

    Args:
        ranks: of images that are convolved.
    """

    def __init__(self, ranks: Set[int]) -> None:
        self._ranks = ranks
        self._as_it_was: dict[Node, Node] = {}
        self._last: dict[Node, Node] = {}

    def is_turned_first(self, node: Node) -> bool:
        rank = node.type.rank
        return isinstance(node.attrs, oa.TransposeAttrs) and rank in self._ranks and node.attrs.perm == _first(rank)

    def add(self, node: Node) -> None:
        """A node whose operands were added."""
        last = self._with_channels_last(node)
        if last is not None:
            self._last[node] = last
            return
        made = self._reduced(node) or self._without_movement(node)
        if made is None:
            made = with_operands(node, tuple(map(self.as_it_was, node.operands)))
        self._as_it_was[node] = made

    def as_it_was(self, node: Node) -> Node:
        """A value in its own layout."""
        if node not in self._as_it_was:
            self._as_it_was[node] = Builder(node.loc).transpose(self._last[node], _first(node.type.rank))
        return self._as_it_was[node]

    def _channels_last(self, node: Node, rank: int) -> Node:
        """A value of `rank` axes, or one that is broadcast to such, as this many axes with channels last."""
        if node.type.rank == rank and node in self._last:
            return self._last[node]
        b = Builder(node.loc)
        shape: Shape = (1,) * (rank - node.type.rank) + node.type.shape
        moved = _moved(shape)
        if _keeps_order(shape):
            return b.reshape(self.as_it_was(view_of(node)), moved)
        if node.kind is OpKind.BROADCAST:
            made = b.broadcast(self._channels_last(node.operands[0], rank), moved)
        elif isinstance(node.attrs, oa.ConstantAttrs):
            value = node.attrs.value.reshape(static_shape(shape))
            made = b.constant(np.transpose(value, _last(rank)), node.type.dtype)
        else:
            made = b.transpose(b.reshape(self.as_it_was(node), shape), _last(rank))
        if node.type.rank == rank:
            self._last[node] = made
        return made

    def _operand(self, node: Node, of: Node) -> Node:
        """Of an elementwise op, which broadcasts a number or a vector of channels by itself."""
        if node.type.numel == 1 < of.type.numel:
            return self.as_it_was(node)
        made = self._channels_last(node, of.type.rank)
        if not made.type.numel == made.type.dims[-1] < of.type.numel:
            return made
        return Builder(node.loc).reshape(view_of(made), made.type.shape[-1:])

    def _with_channels_last(self, node: Node) -> Node | None:
        """What becomes of a node that is turned, or made of what has channels last; None if it stays."""
        if self.is_turned_first(node):
            return self.as_it_was(node.operands[0])
        rank = node.type.rank
        if not any(o in self._last for o in node.operands if o.type.rank == rank):
            return None
        b, attrs = Builder(node.loc), node.attrs
        if node.category is Category.ELEMENTWISE:
            operands = (self._operand(o, node) for o in node.operands)
            return make_node(node.kind, operands, attrs, node.loc)
        if isinstance(attrs, oa.AxisAttrs) and node.kind is OpKind.CONCAT:
            return b.concat([self._channels_last(o, rank) for o in node.operands], _last(rank).index(attrs.axis))
        x = self._last.get(node.operands[0])
        if x is None:
            return None
        if node.kind is OpKind.BROADCAST:
            return b.broadcast(x, _moved(node.type.shape))
        if isinstance(attrs, oa.PadAttrs):
            return b.pad(x, self.as_it_was(node.operands[1]), _moved(attrs.low), _moved(attrs.high))
        if isinstance(attrs, oa.SliceAttrs):
            return b.slice(x, _moved(attrs.begin), _moved(attrs.strides), _moved(attrs.sizes))
        return None

    def _reduced(self, node: Node) -> Node | None:
        """A reduction of what has channels last."""
        if not isinstance(node.attrs, oa.ReduceAttrs) or node.operands[0] not in self._last:
            return None
        b, axes, last = Builder(node.loc), node.attrs.axes, _last(node.operands[0].type.rank)
        made = b.reduce(node.kind, self._last[node.operands[0]], [last.index(axis) for axis in axes])
        kept = [axis for axis in last if axis not in axes]
        return b.transpose(made, [kept.index(axis) for axis in sorted(kept)])

    def _without_movement(self, node: Node) -> Node | None:
        """A transpose back, or a view of what lies the same in both layouts."""
        last = self._last.get(node.operands[0]) if node.operands else None
        if last is None:
            return None
        if isinstance(node.attrs, oa.TransposeAttrs) and node.attrs.perm == _last(node.type.rank):
            return last
        if node.kind is OpKind.RESHAPE and {*last.type.dims[1:-1]} == {1}:
            return Builder(node.loc).reshape(last, node.type.shape)
        return None
