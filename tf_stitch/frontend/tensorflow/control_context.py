"""Loop frames and conditional branches of lowered control flow: where a node can be dead or run more than once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from tf_stitch.frontend.tensorflow.control_flow import ENTERS, EXITS, MERGES, SWITCHES
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph

Context: TypeAlias = frozenset[tuple[str, object]]
"""Frames a node is in, and (predicate, branch) pairs it depends on; nodes of equal context live and die together."""


def frame_names(graph_def: Any) -> dict[str, str]:
    """Frame name of every Enter of a GraphDef."""
    return {n.name: n.attr["frame_name"].s.decode() for n in graph_def.node if n.op in ENTERS}


def control_contexts(graph: ImportedGraph, frames: Mapping[str, str]) -> dict[str, Context]:
    """The context of every node.

    Args:
        frames: frame name of every Enter node.
    """
    contexts: dict[str, Context] = {}
    for name, node in graph.nodes.items():
        sources = [context_of(graph, contexts, t) for t in node.inputs if t.rpartition(":")[0] in contexts]
        if node.op in MERGES and sources:  # what it waits for may be dead, or alive where it is not
            contexts[name] = frozenset.intersection(*sources)
            continue
        sources += [contexts[c] for c in node.control_inputs if c in contexts]
        merged: Context = frozenset().union(*sources)
        if name in frames:
            merged |= {("frame", frames[name])}
        elif node.op in EXITS and (enters := [c for c in node.control_inputs if c in frames]):
            # alive where the loop was entered
            merged = frozenset().union(*(contexts[e] - {("frame", frames[e])} for e in enters))
        contexts[name] = merged
    return contexts


def context_of(graph: ImportedGraph, contexts: Mapping[str, Context], tensor: str) -> Context:
    """The context of what reads a tensor."""
    name, _, port = tensor.rpartition(":")
    producer = graph.nodes[name]
    if producer.op not in SWITCHES:
        return contexts[name]
    predicate = truth_of(graph, producer.inputs[1])
    in_loop = graph.nodes[predicate.rpartition(":")[0]].op == "LoopCond"
    return contexts[name] | {(f"{'loop' if in_loop else 'if'}:{predicate}", port)}


def truth_of(graph: ImportedGraph, predicate: str) -> str:
    """The tensor that a predicate is: of one conditional some switches may be told by it, and some by an Identity."""
    while (producer := graph.nodes[predicate.rpartition(":")[0]]).op == "Identity":
        predicate = producer.inputs[0]
    return predicate
