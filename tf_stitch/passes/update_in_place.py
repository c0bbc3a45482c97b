"""A tensor of which a graph makes another one by writing rows gets these rows scattered, in place.

A loop's body that decodes a word gets a cache of keys and values, cuts out those of each layer, writes a row of them at
a position that is a value of the graph (`select(position == at, row, keys)`), computes with them, and puts all together
again. Nothing but the rows changes. As scatters that follow each other,

    cache_1 = scatter(cache, rows of layer 1)       keys of layer 1 = slice(cache_1)
    cache_2 = scatter(cache_1, rows of layer 2)     keys of layer 2 = slice(cache_2)    ...

all of them can lie in one memory, and who computes with keys and values reads them there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, key_of, make_node, users_of, with_operands
from tf_stitch.ir.matrices import contiguous_strides
from tf_stitch.ir.op_attrs import AxisAttrs, Combine, ScatterAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.position_masks import position_of
from tf_stitch.ir.strided_view import VIEWS, Strides, path_to, reshaped, view_strides

WORTH_SHARE = 8
"""This many times the rows that are written has a tensor at least."""


@dataclass(frozen=True)
class _Write:
    """A row, of each of the matrices [..., positions, row] that a part of the tensor consists of.

    Attributes:
        select: the node that is the part with the rows.
        path: the views that lead from the tensor to the part.
        rows: numbers of the tensor's rows of this width at position 0.
        at: the position, a vector of one.
        row: what is written: the part, with one position.
    """

    select: Node
    path: Sequence[Node]
    rows: NDArray[np.int64]
    width: int
    at: Node
    row: Node


def update_in_place(graph: TensorGraph, source: str, output: str, least_bytes: int) -> TensorGraph:
    """The graph with scatters in place, where the output `output` is the input `source` with some rows written and
    nothing else of the old value is needed; else the graph itself.

    Args:
        least_bytes: of the tensor. A smaller one may be copied sooner than scatters are launched.
    """
    tensor = next((n for n in graph.inputs() if key_of(n) == source), None)
    result = dict(graph.outputs)[output]
    if tensor is None or not tensor.type.is_static or tensor.type != result.type \
            or tensor.type.nbytes < least_bytes:
        return graph
    if result.kind is OpKind.SCATTER and result.operands[0] is tensor:
        return _in_place(graph, result)
    inner: dict[Node, None] = {}
    everything = Strides(0, tuple(contiguous_strides(tensor.type.dims)))
    writes = _writes(result, everything, tensor, inner)
    if not writes or len({w.width for w in writes}) > 1:
        return graph
    if tensor.type.numel < WORTH_SHARE * sum(w.rows.size * w.width for w in writes):
        return graph
    return _Rewrite(graph, tensor, result, writes, inner).graph()


def _in_place(graph: TensorGraph, scatter: Node) -> TensorGraph:
    """The graph with the scatter in place, if nobody else reads what elements were before."""
    nodes = graph.nodes()
    tensor = scatter.operands[0]
    read_once = users_of(nodes)[tensor] == [scatter] and scatter.operands.count(tensor) == 1
    if not read_once or any(n is tensor for _, n in graph.outputs):
        return graph
    assert isinstance(scatter.attrs, ScatterAttrs)
    new = {scatter: make_node(scatter.kind, scatter.operands, replace(scatter.attrs, in_place=True), scatter.loc)}
    for node in nodes:
        if node is not scatter:
            new[node] = with_operands(node, tuple(new[o] for o in node.operands))
    return TensorGraph(graph.name, [(key, new[node]) for key, node in graph.outputs], list(graph.unread))


def _writes(node: Node, place: Strides, tensor: Node, inner: dict[Node, None]) -> list[_Write] | None:
    """How `node` comes of what lies in a place of the tensor's memory; None if not by writing rows.

    Args:
        inner: gets the nodes that put the parts together.
    """
    if not node.type.is_static:
        return None
    if _lies_at(node, place, tensor):
        return []
    if node.kind is OpKind.SELECT:
        write = _write(node, place, tensor)
        return None if write is None else [write]
    inner[node] = None
    if node.kind is OpKind.RESHAPE:
        [operand] = node.operands
        axes = reshaped(node.type.dims, place.axes, operand.type.dims) if operand.type.is_static else None
        return None if axes is None else _writes(operand, Strides(place.offset, tuple(axes)), tensor, inner)
    if node.kind is not OpKind.CONCAT:
        return None
    assert isinstance(node.attrs, AxisAttrs)
    found: list[_Write] = []
    for operand in node.operands:
        part = _writes(operand, place, tensor, inner)
        if part is None:
            return None
        found += part
        place = replace(place, offset=place.offset + operand.type.dims[node.attrs.axis] * place.axes[node.attrs.axis])
    return found


def _path_to(node: Node, tensor: Node) -> list[Node]:
    return path_to(node, lambda n: n is tensor)


def _lies_at(node: Node, place: Strides, tensor: Node) -> bool:
    """Whether a node is a view of the tensor, of just this place."""
    path = _path_to(node, tensor)
    if (path[0].operands[0] if path else node) is not tensor or not all(view.type.is_static for view in path):
        return False
    found = view_strides(path, tensor)
    return found is not None and found.offset == place.offset and all(
        a == b for dim, a, b in zip(node.type.dims, found.axes, place.axes, strict=True) if dim != 1)


def _write(select: Node, place: Strides, tensor: Node) -> _Write | None:
    mask, row, old = select.operands
    if not mask.type.is_static or not old.type.is_static:
        return None
    dims, at = select.type.dims, position_of(mask)
    axes = [a for a, d in enumerate(mask.type.dims, len(dims) - mask.type.rank) if d != 1]
    if at is None or len(axes) != 1 or old.type.dims != dims or not _lies_at(old, place, tensor):
        return None
    [axis] = axes
    if row.kind is OpKind.BROADCAST:
        row = row.operands[0]
    width = math.prod(dims[axis + 1:])
    rows = contiguous_strides(dims)[axis:]  # as positions and what is behind them lie, if each position is a row
    whole = all(dims[axis + i] == 1 or place.axes[axis + i] == stride for i, stride in enumerate(rows))
    steps = [place.offset, *(stride for dim, stride in zip(dims[:axis], place.axes, strict=False) if dim != 1)]
    if not whole or any(step % width for step in steps) or row.type.shape != (*dims[:axis], 1, *dims[axis + 1:]):
        return None
    lead = [np.arange(dim) * stride // width for dim, stride in zip(dims[:axis], place.axes, strict=False)]
    numbers = reduce(np.add.outer, lead, np.array(place.offset // width))
    return _Write(select, _path_to(old, tensor), numbers.reshape(-1), width, at, row)


class _Rewrite:
    """Of one graph: `writes` are those of its output `result`, `inner` puts them together."""

    def __init__(self, graph: TensorGraph, tensor: Node, result: Node, writes: Sequence[_Write],
                 inner: Mapping[Node, None]) -> None:
        self._graph, self._tensor, self._result, self._inner = graph, tensor, result, inner
        self._nodes = graph.nodes()
        self._users = users_of(self._nodes)
        self._parts = {tensor}  # views of the tensor
        for node in self._nodes:
            if node.kind in VIEWS and node.operands[0] in self._parts:
                self._parts.add(node)
        order = {node: i for i, node in enumerate(self._nodes)}
        self._writes = sorted(writes, key=lambda w: order[w.select])
        self._needs = self._selects_needed()
        self._groups = self._grouped()
        self._group_of = {w.select: i for i, group in enumerate(self._groups) for w in group}
        self._behind = list(accumulate(map(len, self._groups)))  # how many writes there are up to the end of each

    def graph(self) -> TensorGraph:
        """The graph itself where the old value is needed when it is gone."""
        if not self._may_go():
            return self._graph
        new: dict[Node, Node] = {self._tensor: self._tensor}
        updated = [self._tensor]  # after this many groups
        for group in self._groups:
            self._renew([operand for w in group for operand in (w.at, w.row)], new, updated)
            updated.append(self._scatter(group, new, updated[-1]))
        new[self._result] = updated[-1]
        outputs = [node for _, node in self._graph.outputs]
        self._renew(outputs, new, updated)
        return TensorGraph(self._graph.name, [(key, new[node]) for key, node in self._graph.outputs],
                           list(self._graph.unread))

    def _selects_needed(self) -> dict[Node, int]:
        """The writes whose selects each node is made of, as bits, in their order."""
        bit = {w.select: 1 << i for i, w in enumerate(self._writes)}
        needs: dict[Node, int] = {}
        for node in self._nodes:
            needs[node] = bit.get(node, 0)
            for operand in node.operands:
                needs[node] |= needs[operand]
        return needs

    def _grouped(self) -> list[list[_Write]]:
        """Writes in order; those of a group do not need each other."""
        groups: list[list[_Write]] = []
        begun = 0  # the first of the last group
        for i, write in enumerate(self._writes):
            if not groups or (self._needs[write.row] | self._needs[write.at]) >> begun:
                groups.append([])
                begun = i
            groups[-1].append(write)
        return groups

    def _may_go(self) -> bool:
        """Whether old values are read by selects alone, and the new ones of a group before the next group writes."""
        outputs = {node for _, node in self._graph.outputs} - {self._result}
        if self._tensor in outputs or not outputs.isdisjoint((*self._inner, *self._group_of)):
            return False
        return all(self._in_time(node, user) for node in self._nodes for user in self._users[node])

    def _in_time(self, node: Node, user: Node) -> bool:
        """Of one of the users of a node."""
        if user in self._inner:
            return True
        if node in self._inner:
            return node is self._result
        if node in self._group_of:
            return not self._needs[user] >> self._behind[self._group_of[node]]
        return node not in self._parts or user in self._parts or user in self._group_of

    def _scatter(self, group: Sequence[_Write], new: Mapping[Node, Node], before: Node) -> Node:
        b = Builder(group[0].select.loc)
        dims, width = self._tensor.type.dims, group[0].width
        row_axes = next(a for a in range(len(dims), 0, -1) if math.prod(dims[a:]) == width)
        rows, updates = [], []
        for write in group:
            at = new[write.at]
            rows.append(b.add(b.constant(write.rows, at.type.dtype), at))
            updates.append(b.reshape(new[write.row], (write.rows.size, *dims[row_axes:])))
        return b.scatter(before, b.concat(rows, 0), b.concat(updates, 0), dims, Combine.SET, row_axes=row_axes,
                         in_place=True)

    def _renew(self, roots: Sequence[Node], new: dict[Node, Node], updated: Sequence[Node]) -> None:
        """Fills `new` with what roots are made of; of selects only those of groups that have written."""
        needed: dict[Node, None] = {}
        stack = [n for n in roots if n not in new]
        while stack:
            node = stack.pop()
            if node in needed or node in new:
                continue
            needed[node] = None
            if node not in self._group_of:
                stack += node.operands
        for node in self._nodes:
            if node not in needed:
                continue
            group = self._group_of.get(node)
            if group is None:
                new[node] = with_operands(node, tuple(new[o] for o in node.operands))
                continue
            value = updated[group + 1]
            for view in next(w.path for w in self._groups[group] if w.select is node):
                value = with_operands(view, (value,))
            new[node] = value
