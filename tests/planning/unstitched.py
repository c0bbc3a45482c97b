"""What memory a region's ops need one by one."""

from __future__ import annotations

from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.placement.arena import Lifetime, live_bytes

VIEWS = (OpKind.RESHAPE, OpKind.BROADCAST)
"""TensorFlow moves no memory for the first, and nearly never for the second."""


def unstitched_bytes(graph: TensorGraph) -> int:
    """Bytes alive at one time, at most, if every op runs alone in the graph's order, an elementwise op in the memory of
    an operand that nobody reads later. Results, variables and inputs are left out. A lower bound of what TensorFlow
    takes, which knows no best order."""
    results = {_source(n.operands[0] if n.kind is OpKind.ASSIGN else n) for _, n in graph.outputs}
    ops = [n for n in graph.nodes() if n.category not in (Category.SOURCE, Category.EFFECT) and n.kind not in VIEWS]
    last = {op: i for i, op in enumerate(ops)}
    for i, op in enumerate(ops):
        last.update((source, i) for source in map(_source, op.operands) if source in last)
    memory: dict[Node, Lifetime] = {}  # by the op that came first
    owner: dict[Node, Node] = {}
    for i, op in enumerate(ops):
        if op in results:
            continue
        taken = [owner[s] for s in map(_source, op.operands) if s in owner and last[s] == i
                 and op.category is Category.ELEMENTWISE and memory[owner[s]].nbytes == op.type.nbytes]
        owner[op] = taken[0] if taken else op
        first = memory[owner[op]].first if taken else i
        memory[owner[op]] = Lifetime(int(op.type.nbytes), first, last[op])
    return live_bytes(list(memory.values()))


def _source(node: Node) -> Node:
    while node.kind in VIEWS:
        node = node.operands[0]
    return node
