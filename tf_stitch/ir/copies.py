"""Copies of nodes that some of their users alone read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_stitch.ir.graph import Node, TensorGraph, make_node, with_operands


@dataclass(frozen=True)
class Copies:
    """`nodes`, which `users` read copies of, made for them alone."""

    nodes: frozenset[Node]
    users: frozenset[Node]


def with_copies(graph: TensorGraph, chosen: Sequence[Copies]) -> tuple[TensorGraph, dict[Node, Node]]:
    """The graph with these copies made, and what stands for each node in it."""
    new: dict[Node, Node] = {}
    copied: list[dict[Node, Node]] = [{} for _ in chosen]
    group_of = {user: i for i, copies in enumerate(chosen) for user in copies.users}
    holders: dict[Node, list[int]] = {}
    for i, copies in enumerate(chosen):
        for node in copies.nodes:
            holders.setdefault(node, []).append(i)
    for node in graph.nodes():
        own = copied[group_of[node]] if node in group_of else {}
        new[node] = with_operands(node, tuple(own.get(o, new[o]) for o in node.operands))
        for i in holders.get(node, ()):
            operands = tuple(copied[i].get(o, new[o]) for o in node.operands)
            copied[i][node] = make_node(node.kind, operands, node.attrs, node.loc)
    outputs = [(key, new[n]) for key, n in graph.outputs]
    return TensorGraph(graph.name, outputs, [new[n] for n in graph.unread]), new
