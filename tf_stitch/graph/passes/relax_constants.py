"""Removes redundant control inputs from constants."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.frontend.tensorflow.control_flow import BRANCHES_OR_LOOPS
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult


@dataclass(frozen=True)
class RelaxConstants:
    """Moves the control inputs of constants to those who use them: constant folding leaves them there, and they keep
    regions apart that read a constant alike. What came after what still does. Graphs with branches or loops, where
    control inputs tell a constant when it is dead, are left alone.
    """

    name: str = "relax_constants"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        waits = {node.name: list(node.input) for node in state.graph_def.node if node.op == "Const" and node.input}
        if not waits or any(node.op in BRANCHES_OR_LOOPS for node in state.graph_def.node):
            return PassResult(state, False)

        def behind(control: str) -> list[str]:
            """What a wait for a node means: for a constant, what that waits for."""
            return [b for c in waits[control[1:]] for b in behind(c)] if control[1:] in waits else [control]

        graph_def = state.copy_graph()
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
        return PassResult(state.with_graph(graph_def), True)
