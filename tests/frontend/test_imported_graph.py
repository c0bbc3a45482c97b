"""The order of a graph's nodes where it has loops."""

from __future__ import annotations

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.frontend.tensorflow.imported_graph import entrances, topological


def loop() -> GraphDef:
    """before -> loop(limit) -> after; the loop's Exit waits for `limit` only by way of the back edge."""
    graph = GraphDef()

    def node(name: str, op: str, *inputs: str) -> None:
        added = graph.node.add(name=name, op=op, input=inputs)
        if op == "Enter":
            added.attr["frame_name"].s = b"frame"

    node("start", "Const")
    node("before", "Exp", "start")
    node("enter", "Enter", "start")
    node("enter_limit", "Enter", "before")
    node("merge", "Merge", "enter", "next")
    node("less", "Less", "merge", "merge")
    node("cond", "LoopCond", "less")
    node("switch", "Switch", "merge", "cond")
    node("body", "Mul", "switch:1", "enter_limit")
    node("next", "NextIteration", "body")
    node("exit", "Exit", "switch")
    node("after", "Exp", "exit")
    return graph


def test_a_loop_is_left_after_all_of_it_was_entered() -> None:
    defs = {n.name: n for n in loop().node}
    assert entrances(defs) == {"exit": ["enter", "enter_limit"]}
    order = [n.name for n in topological(defs)]
    assert order.index("before") < order.index("exit")
