"""Applies node-to-node rules bottom up until none applies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from tf_stitch.errors import VerifyError
from tf_stitch.ir.graph import Node, TensorGraph, with_operands
from tf_stitch.pass_manager import PassResult

NodeRule: TypeAlias = Callable[[Node], Node | None]
LIMIT = 64


def rewrite(graph: TensorGraph, rules: Sequence[NodeRule]) -> PassResult[TensorGraph]:
    """The graph with every node replaced by what the first rule that applies gives, repeatedly.

    Raises:
        VerifyError: rules that never come to rest.
    """
    new: dict[Node, Node] = {}
    modified = False
    for node in graph.nodes():
        current = with_operands(node, tuple(new[o] for o in node.operands))
        for _ in range(LIMIT):
            result = _applied(rules, current)
            if result is None:
                break
            if result.type != current.type:
                raise VerifyError(f"a rule turned {current.type} into {result.type}", node.loc)
            current, modified = result, True
        else:
            raise VerifyError("rules do not come to rest", node.loc)
        new[node] = current
    if not modified and not graph.unread:
        return PassResult(graph, modified=False)
    return PassResult(TensorGraph(graph.name, [(k, new[n]) for k, n in graph.outputs]), modified)


def _applied(rules: Sequence[NodeRule], node: Node) -> Node | None:
    """The result of the first rule that applies, None if none does."""
    for rule in rules:
        result = rule(node)
        if result is not None:
            return result
    return None


def replace_chosen(graph: TensorGraph, chosen: Collection[Node], replacement: Callable[[Node], Node]
                   ) -> PassResult[TensorGraph]:
    """The graph with each of `chosen` replaced by what is made of it, operands first: `replacement` gets the node with
    new operands."""
    if not chosen:
        return PassResult(graph, modified=False)
    new: dict[Node, Node] = {}
    for node in graph.nodes():
        same = with_operands(node, tuple(new[o] for o in node.operands))
        new[node] = replacement(same) if node in chosen else same
    return PassResult(TensorGraph(graph.name, [(k, new[n]) for k, n in graph.outputs]), modified=True)
