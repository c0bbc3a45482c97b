"""Rows that were made longer for a matmul stay so, as far as they are read one by one: what computes with them has
rows of one length from the matmul that gave them to the one that they go into, nothing is copied in between, and
accesses of memory are 16 bytes wide. Reductions of rows leave out what was added."""

from __future__ import annotations

from dataclasses import dataclass, field

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, with_operands
from tf_stitch.ir.matrices import ROW_BYTES
from tf_stitch.ir.op_attrs import ConstantAttrs, IotaAttrs, PadAttrs, ReduceAttrs, SliceAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.reductions import initial
from tf_stitch.pass_manager import PassResult


@dataclass(frozen=True)
class WidenRows:
    """Moves slices that cut rows to the right of a matmul's result behind what is computed of its elements."""

    name: str = "widen_rows"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        widening = _Widening()
        for node in graph.nodes():
            widening.add(node)
        if not widening.wide:
            return PassResult(graph, modified=False)
        return PassResult(TensorGraph(graph.name, [(key, widening.new[n]) for key, n in graph.outputs]), modified=True)


@dataclass
class _Widening:
    """Attributes:
    new: what stands for each node.
    wide: of nodes whose rows can be had longer, the node with such rows; what it has beyond means nothing.
    lengthened: what does not come from such rows, and how long its rows are to be -> the node.
    masked: longer rows, and what stands beyond the true ones -> a node with both. One serves all who read it.
    """

    new: dict[Node, Node] = field(default_factory=dict)
    wide: dict[Node, Node] = field(default_factory=dict)
    masked: dict[tuple[Node, float], Node] = field(default_factory=dict)
    lengthened: dict[tuple[Node, int], Node] = field(default_factory=dict)

    def add(self, node: Node) -> None:
        longer = self._longer(node)
        if longer is not None:
            self.wide[node] = longer
            self.new[node] = _cut(longer, node)
        else:
            self.new[node] = self._of_wide(node) or with_operands(node, tuple(self.new[o] for o in node.operands))

    def _longer(self, node: Node) -> Node | None:
        """A node with longer rows; None if it has none."""
        if _cuts_a_matmul(node):
            return self.new[node.operands[0]]
        if not any(o in self.wide for o in node.operands) or not node.type.is_static or not node.type.rank:
            return None
        b = Builder(node.loc)
        first = next(o for o in node.operands if o in self.wide)
        length, wide = first.type.dims[-1], self.wide[first].type.dims[-1]
        if node.type.dims[-1] != length:
            return None
        if node.kind is OpKind.RESHAPE:
            return b.reshape(self.wide[first], (*node.type.dims[:-1], wide))
        if node.category is not Category.ELEMENTWISE:
            return None
        operands = [self._operand(o, length, wide) for o in node.operands]
        return None if None in operands else with_operands(node, tuple(o for o in operands if o is not None))

    def _operand(self, operand: Node, length: int, wide: int) -> Node | None:
        """An operand of something whose rows become longer; None if it cannot be had."""
        if operand in self.wide:
            return self.wide[operand] if self.wide[operand].type.dims[-1] == wide else None
        return self._lengthened(self.new[operand], length, wide)

    def _lengthened(self, node: Node, length: int, wide: int) -> Node:
        """What does not come from longer rows, on such: computed so where it is computed of positions and of what all
        columns share, else with zeros."""
        dims = node.type.dims
        if not dims or dims[-1] != length:
            return node
        if (node, wide) not in self.lengthened:
            b, shape = Builder(node.loc), (*dims[:-1], wide)
            if isinstance(node.attrs, IotaAttrs) and node.attrs.axis >= 0:
                found = b.iota(shape, node.attrs.axis, node.type.dtype)
            elif node.kind is OpKind.BROADCAST and node.operands[0].type.dims[-1:] in ((), (1,)):
                found = b.broadcast(node.operands[0], shape)
            elif node.category is Category.ELEMENTWISE:
                found = with_operands(node, tuple(self._lengthened(o, length, wide) for o in node.operands))
            else:
                more = [*[0] * (len(dims) - 1), wide - length]
                found = b.pad(node, b.constant(0, node.type.dtype), [0] * len(dims), more)
            self.lengthened[node, wide] = found
        return self.lengthened[node, wide]

    def _of_wide(self, node: Node) -> Node | None:
        """What is made of longer rows and has none itself: reductions of rows, and rows that were to be longer."""
        longer = self.wide.get(node.operands[0]) if node.operands else None
        if longer is None:
            return None
        rows = node.operands[0]
        if isinstance(node.attrs, PadAttrs):
            same = node.type.dims == longer.type.dims and not any(node.attrs.low) and _is_zero(node.operands[1])
            return self._masked(longer, rows, 0) if same else None
        if not isinstance(node.attrs, ReduceAttrs) or rows.type.rank - 1 not in node.attrs.axes:
            return None
        return with_operands(node, (self._masked(longer, rows, initial(node)),))

    def _masked(self, longer: Node, rows: Node, value: float) -> Node:
        """Longer rows with `value` in what they have beyond `rows`."""
        if (longer, value) not in self.masked:
            b = Builder(rows.loc)
            columns = b.iota((longer.type.dims[-1],), 0, DType.I32)
            inside = b.op(OpKind.LESS, columns, b.constant(rows.type.dims[-1], DType.I32))
            self.masked[longer, value] = b.select(inside, longer, b.constant(value, longer.type.dtype))
        return self.masked[longer, value]


def _cuts_a_matmul(node: Node) -> bool:
    """Whether it is a matmul without some of its last columns, so few as were added for its rows: others that it lacks
    may be the gates of a recurrent cell, and all be read."""
    if not isinstance(node.attrs, SliceAttrs) or node.operands[0].kind is not OpKind.DOT:
        return False
    whole = node.operands[0].type.dims
    return (not any(node.attrs.begin) and all(s == 1 for s in node.attrs.strides)
            and node.type.dims[:-1] == whole[:-1]
            and 0 < whole[-1] - node.type.dims[-1] < ROW_BYTES // node.type.dtype.size)


def _cut(longer: Node, node: Node) -> Node:
    dims = node.type.dims
    return Builder(node.loc).slice(longer, [0] * len(dims), [1] * len(dims), dims)


def _is_zero(node: Node) -> bool:
    return isinstance(node.attrs, ConstantAttrs) and not node.attrs.value.any()
