"""Whether a fallback subgraph can give a region's outputs."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.graph.fallback.completeness import why_incomplete

ARGUMENTS = ("tfs_i0:0", "tfs_i1:0")


def subgraph() -> GraphDef:
    """c = max of top k; "c" waits for "b"."""
    nodes = GraphDef()
    for name, op, inputs in (("a", "AddV2", ["tfs_i0:0", "tfs_i1:0"]), ("b", "TopKV2", ["a", "k"]),
                             ("c", "Exp", ["b:0", "^a"]), ("k", "Const", [])):
        node = nodes.node.add(name=name, op=op, input=inputs)
        node.attr["T" if op != "Const" else "dtype"].type = tf.float32.as_datatype_enum
    return nodes


def without(name: str) -> GraphDef:
    nodes = GraphDef()
    nodes.node.extend(n for n in subgraph().node if n.name != name)
    return nodes


def test_a_whole_subgraph_lacks_nothing() -> None:
    assert why_incomplete(subgraph(), ARGUMENTS, ["c:0", "b:1", "tfs_i0:0"], ["a", "b", "c"]) == ""


@pytest.mark.parametrize(("nodes", "arguments", "outputs", "must_run", "reason"), [
    (without("a"), ARGUMENTS, ["c:0"], [], "its fallback subgraph lacks a"),
    (without("c"), ARGUMENTS, ["c:0"], [], "its fallback subgraph lacks c"),
    (without("c"), ARGUMENTS, ["b:0"], ["c"], "its fallback subgraph lacks c"),
    (subgraph(), ARGUMENTS[:1], ["c:0"], [], "its fallback subgraph lacks tfs_i1"),
    (subgraph(), ARGUMENTS, ["b:2"], [], "its fallback subgraph lacks output 2 of b, which has 2"),
    (subgraph(), ARGUMENTS, ["d:0"], [], "its fallback subgraph lacks d"),
    (GraphDef(node=[*subgraph().node, *subgraph().node]), ARGUMENTS, ["c:0"], [],
     "two nodes of its fallback subgraph have one name")])
def test_what_is_missing_is_named(nodes: GraphDef, arguments: Any, outputs: list[str], must_run: list[str],
                                  reason: str) -> None:
    assert why_incomplete(nodes, arguments, outputs, must_run) == reason
