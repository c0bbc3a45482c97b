"""Channels last for what lies between convolutions.

TensorFlow puts channels before height and width on GPUs for float32, and the convolutions of the IR have them last. So
a convolution's result is transposed, goes through a batch norm, an activation and a sum, and is transposed again for
the next one. Here what is made of a transposed result is computed as it lies; a transpose is left where a value comes
in otherwise, or is needed otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, make_node, view_of, with_operands
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.types import Shape, static_shape
from tf_stitch.pass_manager import PassResult

_LAST = (0, 2, 3, 1)  # axis of channels first -> of channels last: [n, c, h, w] -> [n, h, w, c]
_FIRST = (0, 3, 1, 2)


@dataclass(frozen=True)
class ChannelsLast:
    """Of graphs with convolutions."""

    name: str = "channels_last"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        nodes = graph.nodes()
        if not any(n.category is Category.CONVOLUTION for n in nodes) or not any(map(_is_turned_first, nodes)):
            return PassResult(graph, False)
        layouts = _Layouts()
        for node in nodes:
            layouts.add(node)
        return PassResult(TensorGraph(graph.name, [(k, layouts.as_it_was(n)) for k, n in graph.outputs]), True)


def _is_turned_first(node: Node) -> bool:
    return isinstance(node.attrs, oa.TransposeAttrs) and node.attrs.perm == _FIRST


def _keeps_order(shape: Shape) -> bool:
    """Whether all axes that have elements are in the same order with channels last."""
    return [axis for axis in _LAST if shape[axis] != 1] == [axis for axis in range(4) if shape[axis] != 1]


def _moved(values: Sequence[int]) -> tuple[int, ...]:
    """What belongs to axes, with channels last."""
    return tuple(values[axis] for axis in _LAST)


class _Layouts:
    """New values of a graph's nodes, each in one layout or in both."""

    def __init__(self) -> None:
        self._as_it_was: dict[Node, Node] = {}
        self._last: dict[Node, Node] = {}

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
            self._as_it_was[node] = Builder(node.loc).transpose(self._last[node], _FIRST)
        return self._as_it_was[node]

    def _channels_last(self, node: Node) -> Node:
        """A value of four axes, or one that is broadcast to such, as four axes with channels last."""
        if node in self._last:
            return self._last[node]
        b = Builder(node.loc)
        shape: Shape = (1,) * (4 - node.type.rank) + node.type.shape
        moved: Shape = tuple(shape[axis] for axis in _LAST)
        if _keeps_order(shape):
            return b.reshape(self.as_it_was(view_of(node)), moved)
        if node.kind is OpKind.BROADCAST:
            made = b.broadcast(self._channels_last(node.operands[0]), moved)
        elif isinstance(node.attrs, oa.ConstantAttrs):
            made = b.constant(np.transpose(node.attrs.value.reshape(static_shape(shape)), _LAST), node.type.dtype)
        else:
            made = b.transpose(b.reshape(self.as_it_was(node), shape), _LAST)
        if node.type.rank == 4:
            self._last[node] = made
        return made

    def _operand(self, node: Node, numel: int) -> Node:
        """Of an elementwise op of so many elements, which broadcasts a number or a vector of channels by itself."""
        if node.type.numel == 1 < numel:
            return self.as_it_was(node)
        made = self._channels_last(node)
        if not made.type.numel == made.type.dims[3] < numel:
            return made
        return Builder(node.loc).reshape(view_of(made), made.type.shape[3:])

    def _with_channels_last(self, node: Node) -> Node | None:
        """What becomes of a node that is turned, or made of what has channels last; None if it stays."""
        if _is_turned_first(node):
            return self.as_it_was(node.operands[0])
        if node.type.rank != 4 or not any(o in self._last for o in node.operands):
            return None
        b, attrs = Builder(node.loc), node.attrs
        if node.category is Category.ELEMENTWISE:
            operands = (self._operand(o, node.type.numel) for o in node.operands)
            return make_node(node.kind, operands, attrs, node.loc)
        if isinstance(attrs, oa.AxisAttrs) and node.kind is OpKind.CONCAT:
            return b.concat([self._channels_last(o) for o in node.operands], _LAST.index(attrs.axis))
        x = self._last.get(node.operands[0])
        if x is None:
            return None
        if node.kind is OpKind.BROADCAST:
            return b.broadcast(x, cast(Shape, _moved(node.type.dims)))
        if isinstance(attrs, oa.PadAttrs):
            return b.pad(x, self.as_it_was(node.operands[1]), _moved(attrs.low), _moved(attrs.high))
        if isinstance(attrs, oa.SliceAttrs):
            return b.slice(x, _moved(attrs.begin), _moved(attrs.strides), tuple(attrs.sizes[axis] for axis in _LAST))
        return None

    def _reduced(self, node: Node) -> Node | None:
        """A reduction of what has channels last."""
        if not isinstance(node.attrs, oa.ReduceAttrs) or node.operands[0] not in self._last:
            return None
        b, axes = Builder(node.loc), node.attrs.axes
        made = b.reduce(node.kind, self._last[node.operands[0]], [_LAST.index(axis) for axis in axes])
        kept = [axis for axis in _LAST if axis not in axes]
        return b.transpose(made, [kept.index(axis) for axis in sorted(kept)])

    def _without_movement(self, node: Node) -> Node | None:
        """A transpose back, or a view of what lies the same in both layouts."""
        last = self._last.get(node.operands[0]) if node.operands else None
        if last is None:
            return None
        if isinstance(node.attrs, oa.TransposeAttrs) and node.attrs.perm == _LAST:
            return last
        if node.kind is OpKind.RESHAPE and last.type.dims[1:3] == (1, 1):
            return Builder(node.loc).reshape(last, node.type.shape)
        return None
