"""Loops whose trip count is known become copies of their bodies."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tf_stitch.graph.loops.loop_unrolling import unroll_loops
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult
from tf_stitch.report.entries import LoopEntry


@dataclass(frozen=True)
class UnrollLoops:
    """See graph.loops.loop_unrolling.

    Attributes:
        enabled: whether anything is unrolled.
    """

    enabled: bool
    name: str = "unroll_loops"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        if not self.enabled or not state.has_loops:
            return PassResult(state, False)
        done = unroll_loops(state)
        entries = (*(LoopEntry(name, steps, None) for name, steps in done.changed.items()),
                   *(LoopEntry(name, None, reason) for name, reason in done.stay.items()))
        return PassResult(replace(done.state, loops=entries), bool(done.changed))
