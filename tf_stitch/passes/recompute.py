"""Values that a later level needs are computed there again where that moves fewer bytes: not written, and read again,
but computed from what lies in memory anyway.

The gradient of a GELU needs the erf of its argument, that of a layer normalization x - mean(x). TensorFlow keeps them
from the forward pass on; here the argument alone is kept, which a matmul or the next layer wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tf_stitch.ir.graph import Node, TensorGraph, make_node, with_operands
from tf_stitch.ir.levels import Levels, find_levels
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.pass_manager import PassResult

LARGE = 1 << 20
"""Bytes from which a value's way through memory is what its kernels take time for."""
SMALL = 8
"""What has to be kept besides, for all that is computed from it, is this much smaller than the value."""


@dataclass(frozen=True)
class Recompute:
    """Gives the users of a value on later levels a copy of what computes it.

    Attributes:
        separates: whether a node is a matmul that no kernel computes.
        cycles_per_byte: operations that are worth a byte not moved twice.
    """

    separates: Callable[[Node], bool]
    cycles_per_byte: int
    name: str = "recompute"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        nodes = graph.nodes()
        if not any(map(self.separates, nodes)):
            return PassResult(graph, modified=False)
        wanted = {n.operands[0] if n.kind is OpKind.ASSIGN else n for _, n in graph.outputs}
        copies = _Copies(nodes, find_levels(nodes, self.separates, wanted), self.cycles_per_byte)
        if not copies.made:
            return PassResult(graph, modified=False)
        outputs = [(key, copies.own[node]) for key, node in graph.outputs]
        return PassResult(TensorGraph(graph.name, outputs, graph.unread), modified=True)


class _Copies:
    """New nodes of the graph, and copies of some for each later level that uses them.

    Attributes:
        own: what stands for each node on its own level.
        made: how many copies there are.
    """

    def __init__(self, nodes: list[Node], levels: Levels, cycles_per_byte: int) -> None:
        self._levels, self._cycles_per_byte = levels, cycles_per_byte
        self._cheap: dict[Node, bool] = {}
        self.own: dict[Node, Node] = {}
        self._later: dict[tuple[Node, int], Node] = {}
        self.made = 0
        for node in nodes:
            self.own[node] = self._with(node, levels.of[node])

    def _with(self, node: Node, level: int) -> Node:
        """`node` with operands as `level` has them."""
        return with_operands(node, tuple(self._at(o, level) for o in node.operands))

    def _at(self, node: Node, level: int) -> Node:
        if level <= self._levels.of[node] or not self._pays(node):
            return self.own[node]
        if (node, level) not in self._later:
            operands = tuple(self._at(o, level) for o in node.operands)
            self._later[node, level] = make_node(node.kind, operands, node.attrs, node.loc)
            self.made += 1
        return self._later[node, level]

    def _pays(self, node: Node) -> bool:
        sources = self._levels.sources[node]
        if node in sources or not node.operands:
            return False
        own = node.type.typical_bytes
        large = any(isinstance(d, SymbolicDim) for d in node.type.dims) or own >= LARGE
        read = sum(n.type.typical_bytes for n in sources)
        kept = self._levels.to_keep(sources)
        return (large and SMALL * (read - own) <= own and SMALL * kept <= own
                and self._is_cheap(node))

    def _is_cheap(self, node: Node) -> bool:
        """Whether a value's way through memory takes longer than computing it from its sources."""
        if node not in self._cheap:
            self._cheap[node] = _costs_at_most(node, self._levels, self._cycles_per_byte * node.type.dtype.size)
        return self._cheap[node]


def _costs_at_most(node: Node, levels: Levels, cycles: int) -> bool:
    """Whether an element of a value is computed from its sources in this many cycles."""
    seen: set[Node] = set()
    pending = [node]
    while pending and cycles >= 0:
        one = pending.pop()
        if one in seen or one in levels.sources[one]:
            continue
        seen.add(one)
        cycles -= one.info.cost
        pending += one.operands
    return cycles >= 0
