"""Folded loops that no region took become loops again."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.graph.loops.folded_loop import STITCH_LOOP, put_back_loops
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult


@dataclass(frozen=True)
class PutBackLoops:
    """Replaces each StitchLoop by the nodes that `passes/fold_loops.py` took out."""

    name: str = "put_back_loops"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        if not any(node.op == STITCH_LOOP for node in state.graph_def.node):
            return PassResult(state, False)
        graph_def = state.copy_graph()
        put_back_loops(graph_def, state.sized)
        return PassResult(state.with_graph(graph_def), True)
