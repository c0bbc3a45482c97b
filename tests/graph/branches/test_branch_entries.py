"""Conditionals have the user's names, and nodes of which TensorFlow knows the lines."""

from __future__ import annotations

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.graph.branches.branch_entries import ON_A_CPU, entries_without_import, nodes_of


def graph(*nodes: tuple[str, str, list[str]]) -> GraphDef:
    made = GraphDef()
    for name, op, inputs in nodes:
        made.node.add(name=name, op=op, input=inputs)
    return made


def test_of_a_lowered_conditional() -> None:
    """A node by its name is left, and known to TensorFlow; one predicate goes by two names."""
    given = graph(("p", "Greater", []), ("i", "Identity", ["p"]), ("x/_1", "Switch", ["x", "i"]),
                  ("cond/switch_pred/_2", "Switch", ["p", "p"]), ("cond", "NoOp", []))
    [entry] = entries_without_import(given, "CPU")
    assert (entry.name, entry.node, entry.predicate, entry.reason) == ("cond", "cond", "p:0", ON_A_CPU)
    assert [node.name for node in nodes_of([entry], given)] == ["cond"]


def test_of_a_session() -> None:
    [entry] = entries_without_import(graph(("p", "Greater", []), ("cond/Switch", "Switch", ["p", "p"])), "CPU")
    assert (entry.name, entry.node) == ("cond", "cond/Switch")


def test_of_an_op_that_calls_functions() -> None:
    [entry] = entries_without_import(graph(("p", "Greater", []), ("cond", "StatelessIf", ["p", "x"])), "GPU")
    assert entry.reason is not None
    assert "calls functions" in entry.reason


def test_loops_are_none() -> None:
    given = graph(("p", "Less", []), ("c", "LoopCond", ["p"]), ("s", "Switch", ["x", "c"]))
    assert entries_without_import(given, "CPU") == ()
