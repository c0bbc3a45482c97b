"""Lowered while loops of a graph: their nodes, and why one cannot be unrolled by its structure alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tf_stitch.frontend.tensorflow.attributes import NodeAttrs, is_stateful
from tf_stitch.frontend.tensorflow.control_flow import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, SWITCHES
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of

READS_VARIABLE = "ReadVariableOp"


@dataclass(frozen=True)
class LoopFrame:
    """One loop.

    Attributes:
        name: TensorFlow's name of the frame, which begins with the name of the user's loop.
        nodes: all its nodes, in topological order (back edges cut), Enters and Exits included.
        variables: Merge -> (the Enter before it, the tensor that comes back).
        condition: the LoopCond.
    """

    name: str
    nodes: tuple[Any, ...]
    variables: Mapping[str, tuple[str, str]]
    condition: Any

    def of(self, ops: Collection[str]) -> list[Any]:
        """Its nodes of these ops."""
        return [node for node in self.nodes if node.op in ops]

    def behind(self, tensors: Sequence[str]) -> tuple[Any, ...]:
        """Nodes that compute these tensors within an iteration, in topological order."""
        defs = {node.name: node for node in self.nodes}
        needed: set[str] = set()
        pending = [producer_of(t) for t in tensors]
        while pending:
            name = pending.pop()
            if name not in needed and name in defs:
                needed.add(name)
                if defs[name].op not in MERGES | ENTERS:
                    pending += [producer_of(t) for t in defs[name].input if not t.startswith("^")]
        return tuple(node for node in self.nodes if node.name in needed)


def loop_frames(order: Sequence[Any]) -> dict[str, LoopFrame | str]:
    """Frame name -> the loop, or why it is none that unrolling knows.

    Args:
        order: the graph's nodes in topological order.
    """
    users: dict[str, list[Any]] = {}
    for node in order:
        for edge in node.input:
            users.setdefault(producer_of(edge), []).append(node)
    entrances: dict[str, list[Any]] = {}
    for node in order:
        if node.op in ENTERS:
            entrances.setdefault(node.attr["frame_name"].s.decode(), []).append(node)
    return {name: _frame(name, enters, users, order) for name, enters in entrances.items()}


def _frame(name: str, enters: Sequence[Any], users: Mapping[str, Sequence[Any]], order: Sequence[Any]
           ) -> LoopFrame | str:
    inside = _inside(enters, users)
    nodes = tuple(node for node in order if node.name in inside)
    conditions = [node for node in nodes if node.op == "LoopCond"]
    if len(conditions) != 1 or any(n.op in ENTERS and n not in enters for n in nodes):
        return "a loop within it"
    variables = _variables(nodes)
    if variables is None:
        return "a branch within it"
    return LoopFrame(name, nodes, variables, conditions[0]) if variables else "no loop variable"


def _inside(enters: Sequence[Any], users: Mapping[str, Sequence[Any]]) -> set[str]:
    """Names of the nodes from a loop's entrances to its exits."""
    inside = {node.name for node in enters}
    pending = list(enters)
    while pending:
        node = pending.pop()
        if node.op not in EXITS:
            fresh = [u for u in users.get(node.name, ()) if u.name not in inside]
            inside.update(u.name for u in fresh)
            pending += fresh
    return inside


def _variables(nodes: Sequence[Any]) -> dict[str, tuple[str, str]] | None:
    """Of each Merge, where its value comes from first and again; None if one is no loop variable's."""
    defs = {node.name: node for node in nodes}
    variables: dict[str, tuple[str, str]] = {}
    for node in (node for node in nodes if node.op in MERGES):
        sources = [source for t in _data(node) if (source := defs.get(producer_of(t))) is not None]
        enter = next((s for s in sources if s.op in ENTERS), None)
        back = next((s for s in sources if s.op in NEXT_ITERATIONS), None)
        if enter is None or back is None:
            return None
        variables[node.name] = enter.name, _data(back)[0]
    return variables


def why_not_unrolled(frame: LoopFrame, preserved: Collection[str]) -> str | None:
    """What of a loop's nodes forbids copies of them, or None."""
    for node in frame.nodes:
        if node.name in preserved:
            return f"{node.name} is fetched, or must exist"
        if node.op.startswith("Ref"):
            return f"{node.name} is a reference variable"
        if node.op in SWITCHES and producer_of(_data(node)[1]) != frame.condition.name:
            return "a branch within it"
        if NodeAttrs(node).is_for_xla():
            return "XLA compiles it"
        if is_stateful(node.op) and node.op != READS_VARIABLE:
            return f"{node.name} ({node.op}) keeps a state"
    return None


def _data(node: Any) -> list[str]:
    return [canonical_tensor(edge) for edge in node.input if not edge.startswith("^")]
