"""Constants that wait for nothing."""

from __future__ import annotations

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.frontend.tensorflow.control_flow import BRANCHES_OR_LOOPS


def loosen_constants(graph_def: GraphDef) -> None:
    """Moves the control inputs of constants to those who use them, in place: constant folding leaves them there, and
    they keep regions apart that read a constant alike. What came after what still does. Graphs with branches or
    loops, where they tell a constant when it is dead, are left alone."""
    if any(node.op in BRANCHES_OR_LOOPS for node in graph_def.node):
        return
    waits = {node.name: list(node.input) for node in graph_def.node if node.op == "Const" and node.input}

    def behind(control: str) -> list[str]:
        """What a wait for a node means: for a constant, what that waits for."""
        return [b for c in waits[control[1:]] for b in behind(c)] if control[1:] in waits else [control]

    for node in graph_def.node:
        if node.op == "Const":
            del node.input[:]
            continue
        present = set(node.input)
        for source in list(node.input):
            name = source.lstrip("^").partition(":")[0]
            for control in behind(f"^{name}") if name in waits else ():
                if control not in present:
                    present.add(control)
                    node.input.append(control)
