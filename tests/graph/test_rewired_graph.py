"""Nodes that give way to others: who read them reads what is in their place."""

from __future__ import annotations

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tests.graph.graphs import graph_of, text_of
from tf_stitch.graph.rewired_graph import rewired_graph

GRAPH = """x = Placeholder()
a = Split(x)
b = Tanh(a:1)
c = AddV2(a, b, ^a)"""


def rewired(gone: set[str], new: str, renamed: dict[str, str]) -> str:
    before = graph_of(GRAPH)
    text = text_of(rewired_graph(before, gone, graph_of(new).node, renamed))
    assert text_of(before) == GRAPH, "the graph is left as it was"
    return text


def test_readers_read_what_is_in_the_place() -> None:
    assert rewired({"a"}, "s = Stitch(x)", {"a:0": "s:0", "a:1": "s:1", "^a": "^s"}) == """x = Placeholder()
b = Tanh(s:1)
c = AddV2(s:0, b, ^s)
s = Stitch(x)"""


def test_a_place_may_have_another_in_its_own() -> None:
    assert "b = Tanh(t:0)" in rewired(set(), "t = Sin(x)", {"a:1": "u:0", "u:0": "t:0"})


def test_control_edges_come_last_and_once() -> None:
    found = rewired({"b"}, "s = Stitch(x)", {"b:0": "s:0", "^a": "^s"})
    assert "c = AddV2(a, s:0, ^s)" in found


def test_a_new_node_is_rewired_too() -> None:
    assert "s = Stitch(b)" in rewired({"a"}, "s = Stitch(a)", {"a:0": "b"})


def test_without_changes_edges_keep_their_form() -> None:
    assert rewired(set(), "", {}) == GRAPH


def test_nobody_stays_beside_what_is_gone() -> None:
    before = GraphDef()
    for name in ("a", "b", "c"):
        node = before.node.add(name=name, op="NoOp")
        node.attr["_class"].list.s.extend([b"loc:@b", b"loc:@c"] if name == "a" else [b"loc:@b"])
    after = rewired_graph(before, {"b", "c"}, [NodeDef(name="c", op="NoOp")], {})
    assert {n.name: list(n.attr["_class"].list.s) for n in after.node if "_class" in n.attr} == {"a": [b"loc:@c"]}
