"""A graph with a loop of TensorFlow 1's ops."""

from __future__ import annotations

from tensorflow.core.framework.graph_pb2 import GraphDef


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
