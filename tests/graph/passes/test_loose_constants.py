"""Constants lose their control inputs, and nobody loses its place in the order."""

from __future__ import annotations

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.graph.passes.loose_constants import loosen_constants


def graph(*nodes: tuple[str, str, list[str]]) -> GraphDef:
    out = GraphDef()
    for name, op, inputs in nodes:
        out.node.add(name=name, op=op, input=inputs)
    return out


def test_users_wait_in_the_place_of_the_constant() -> None:
    before = graph(("read", "ReadVariableOp", ["h"]), ("d", "Const", ["^read"]), ("c", "Const", ["^d"]),
                   ("a", "AssignVariableOp", ["h", "c"]), ("b", "NoOp", ["^c", "^read"]))
    loosen_constants(before)
    assert {n.name: list(n.input) for n in before.node} == {
        "read": ["h"], "d": [], "c": [], "a": ["h", "c", "^read"], "b": ["^c", "^read"]}


def test_branches_and_loops_are_left_alone() -> None:
    before = graph(("s", "Switch", ["x", "p"]), ("c", "Const", ["^s"]))
    loosen_constants(before)
    assert list(before.node[1].input) == ["^s"]
