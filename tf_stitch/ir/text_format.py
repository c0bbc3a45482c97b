"""Tensor graphs as text: for people, goldens and structural keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind


def format_graph(graph: TensorGraph) -> str:
    """One line a node, operands by number, with the user's node names."""
    nodes = graph.nodes()
    number = {n: i for i, n in enumerate(nodes)}
    lines = [f"graph {graph.name}"]
    for n in nodes:
        where = f"  // {n.loc}" if n.loc.node else ""
        lines.append(f"  %{number[n]} = {_call(n, number)} : {n.type}{where}")
    lines += [f"  out {key} = %{number[n]}" for key, n in graph.outputs]
    return "\n".join(lines) + "\n"


def anonymous_text(graph: TensorGraph) -> str:
    """Text equal for graphs that compute the same: no node names."""
    lines = format_graph(replace(graph, name="")).splitlines()
    return "\n".join(line.split("  // ")[0] for line in lines)


def structural_key(nodes: Sequence[Node], outputs: Iterable[Node]) -> str:
    """Text equal for two sets of nodes exactly if they compute the same from values that come in the same order.

    Args:
        nodes: operands first; operands outside become numbered inputs of their type.
    """
    number: dict[Node, int] = {}
    lines: list[str] = []
    for node in nodes:
        source = node.kind in (OpKind.INPUT, OpKind.VARIABLE)
        for value in (node,) if source else node.operands:
            if value not in number:
                number[value] = len(number)
                lines.append(f"in {value.type}")
        if not source:
            lines.append(f"{_call(node, number)} : {node.type}")
            number[node] = len(number)
    return "\n".join([*lines, "out " + ",".join(str(number[n]) for n in outputs)])


def _call(node: Node, number: dict[Node, int]) -> str:
    operands = ", ".join([f"%{number[o]}" for o in node.operands])
    attrs = node.attrs.text
    return f"{node.kind.value}({operands})" + (f" {{{attrs}}}" if attrs else "")
