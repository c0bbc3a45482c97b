"""Loops whose trip count is the size of a tensor become one node, which is unrolled for the sizes at hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tf_stitch.graph.loops.loop_folding import fold_sized_loops
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult
from tf_stitch.report.entries import LoopEntry

NOT_FOLDED = "loops whose length is a size were not folded, since a region with one could not run the nodes it replaced"


@dataclass(frozen=True)
class FoldLoops:
    """See graph.loops.loop_folding. It works on what UnrollLoops left.

    Attributes:
        enabled: whether loops become copies of their bodies at all.
        allowed: False if a region that held such a loop had no fallback subgraph.
    """

    enabled: bool
    allowed: bool = True
    name: str = "fold_loops"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        left = [entry for entry in state.loops if entry.reason is not None]
        if not self.enabled or not left:
            return PassResult(state, False)
        done = tuple(entry for entry in state.loops if entry.reason is None)
        if not self.allowed:
            told = tuple(replace(entry, reason=f"{entry.reason}; {NOT_FOLDED}") for entry in left)
            return PassResult(replace(state, loops=done + told), False)
        folded = fold_sized_loops(state)
        entries = (*done, *(LoopEntry(name, None, None) for name in folded.changed),
                   *(LoopEntry(name, None, reason) for name, reason in folded.stay.items()))
        return PassResult(replace(folded.state, loops=entries), bool(folded.changed))
