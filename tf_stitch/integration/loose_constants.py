"""Constants that wait for nothing."""

from __future__ import annotations

from tensorflow.core.framework.graph_pb2 import GraphDef

_CONTROL_FLOW = ("Switch", "RefSwitch", "_SwitchN", "Merge", "RefMerge", "Enter", "RefEnter")


def loosen_constants(graph_def: GraphDef) -> None:
    """Drops the control inputs that constant folding left on constants, in place: they tell a constant its branch or
    loop, and where there is none they only keep regions apart. Graphs with branches or loops are left alone."""
    if any(node.op in _CONTROL_FLOW for node in graph_def.node):
        return
    for node in graph_def.node:
        if node.op == "Const":
            del node.input[:]
