"""A tensor of which a graph makes another one by writing rows gets these rows scattered, in place.

A loop's body that decodes a word gets a cache of keys and values, cuts out those of each layer, writes a row of them at
a position that is a value of the graph (`select(position == at, row, keys)`), computes with them, and puts all together
again. Nothing but the rows changes. As scatters that follow each other,

    cache_1 = scatter(cache, rows of layer 1)       keys of layer 1 = slice(cache_1)
    cache_2 = scatter(cache_1, rows of layer 2)     keys of layer 2 = slice(cache_2)    ...

all of them can lie in one memory, and who computes with keys and values reads them there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from tf_stitch.ir.boxes import Box, box_of, whole
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, key_of, make_node, users_of, with_operands
from tf_stitch.ir.op_attrs import AxisAttrs, Combine, ScatterAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.position_masks import position_of
from tf_stitch.ir.types import static_shape

WORTH_BYTES = 1 << 18
"""Of a tensor: a smaller one is copied sooner than scatters are launched."""
WORTH_SHARE = 8
"""So many times the rows that are written has a tensor at least."""


@dataclass(frozen=True)
class _Write:
    """A row of an axis in a box of the tensor.

    Attributes:
        select: the node that is the box with the row.
        axis: of the tensor. Axes behind it are whole.
        at: the position, a vector of one.
        row: what is written there: the box, with one position.
    """

    select: Node
    box: Box
    axis: int
    at: Node
    row: Node

    @property
    def count(self) -> int:
        """Of rows of the tensor, whose first axes are one."""
        return int(np.prod(self.box.sizes[:self.axis], dtype=np.int64))


def update_in_place(graph: TensorGraph, source: str, output: str) -> TensorGraph:
    """The graph with scatters in place, where the output `output` is the input `source` with some rows written and
    nothing else of the old value is needed; else the graph itself."""
    tensor = next((n for n in graph.inputs() if key_of(n) == source), None)
    result = dict(graph.outputs)[output]
    if tensor is None or not tensor.type.is_static or tensor.type != result.type or tensor.type.nbytes < WORTH_BYTES:
        return graph
    if result.kind is OpKind.SCATTER and result.operands[0] is tensor:
        return _in_place(graph, result)
    inner: dict[Node, None] = {}
    writes = _writes(result, whole(tensor), tensor, inner)
    if not writes:
        return graph
    rows = tensor.type.numel // int(np.prod(tensor.type.dims[writes[0].axis + 1:], dtype=np.int64))
    if len({w.axis for w in writes}) > 1 or rows < WORTH_SHARE * sum(w.count for w in writes):
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
    new: dict[Node, Node] = {}
    for node in nodes:
        attrs = replace(scatter.attrs, in_place=True) if node is scatter else node.attrs
        new[node] = make_node(node.kind, [new[o] for o in node.operands], attrs, node.loc)
    return TensorGraph(graph.name, [(key, new[node]) for key, node in graph.outputs], [new[n] for n in graph.unread])


def _writes(node: Node, box: Box, tensor: Node, inner: dict[Node, None]) -> list[_Write] | None:
    """How `node` comes of the box of the tensor; None if not by writing rows.

    Args:
        inner: gets the nodes that put the parts together.
    """
    if not node.type.is_static:
        return None
    if box_of(node, tensor) == box:
        return []
    if node.kind is OpKind.SELECT:
        write = _write(node, box, tensor)
        return None if write is None else [write]
    inner[node] = None
    if node.kind is OpKind.RESHAPE:
        return _writes(node.operands[0], box, tensor, inner)
    axes = box.axes(node.type.dims) if node.kind is OpKind.CONCAT else None
    if axes is None:
        return None
    assert isinstance(node.attrs, AxisAttrs)
    found: list[_Write] = []
    first = 0
    for operand in node.operands:
        size = operand.type.dims[node.attrs.axis]
        part = _writes(operand, box.part(axes[node.attrs.axis], first, size), tensor, inner)
        if part is None:
            return None
        found += part
        first += size
    return found


def _write(select: Node, box: Box, tensor: Node) -> _Write | None:
    mask, row, old = select.operands
    at, axes = position_of(mask), box.axes(select.type.dims)
    if at is None or axes is None or box_of(old, tensor) != box:
        return None
    places = [a for a, d in enumerate(mask.type.dims, select.type.rank - mask.type.rank) if d != 1]
    if len(places) != 1:
        return None
    if row.kind is OpKind.BROADCAST:
        row = row.operands[0]
    axis = axes[places[0]]
    wanted = tuple(1 if a in places else d for a, d in enumerate(select.type.dims))
    behind = slice(axis + 1, None)
    if row.type.shape != wanted or box.sizes[behind] != tensor.type.dims[behind]:
        return None
    return _Write(select, box, axis, at, row)


class _Rewrite:
    """Of one graph: `writes` are those of its output `result`, `inner` puts them together."""

    def __init__(self, graph: TensorGraph, tensor: Node, result: Node, writes: Sequence[_Write],
                 inner: Mapping[Node, None]) -> None:
        self._graph, self._tensor, self._result, self._inner = graph, tensor, result, inner
        self._nodes = graph.nodes()
        self._users = users_of(self._nodes)
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
        updated = [self._tensor]  # after so many groups
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
        return box_of(node, self._tensor) is None or user in self._group_of or box_of(user, self._tensor) is not None

    def _scatter(self, group: Sequence[_Write], new: Mapping[Node, Node], before: Node) -> Node:
        b = Builder(group[0].select.loc)
        dims, axis = self._tensor.type.dims, group[0].axis
        strides = [int(np.prod(dims[a + 1:axis + 1], dtype=np.int64)) for a in range(axis)]
        rows, updates = [], []
        for write in group:
            first = np.zeros((), np.int64)
            for begin, size, stride in zip(write.box.begin, write.box.sizes, strides, strict=False):
                first = first[..., None] + (begin + np.arange(size)) * stride
            first += write.box.begin[axis]
            at = new[write.at]
            rows.append(b.add(b.constant(first.reshape(-1), at.type.dtype), at))
            updates.append(b.reshape(new[write.row], (write.count, *dims[axis + 1:])))
        return b.scatter(before, b.concat(rows, 0), b.concat(updates, 0), static_shape(self._tensor.type.shape),
                         Combine.SET, row_axes=axis + 1, in_place=True)

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
            box = next(w.box for w in self._groups[group] if w.select is node)
            b = Builder(node.loc)
            part = b.slice(updated[group + 1], box.begin, (1,) * len(box.begin), box.sizes)
            new[node] = b.reshape(part, node.type.shape)
