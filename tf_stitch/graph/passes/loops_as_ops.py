"""Loops that are left become one op each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls
from tf_stitch.frontend.tensorflow.own_ops import STITCH_OPS
from tf_stitch.graph.clustering.controls import Controls
from tf_stitch.graph.loops.function_inlining import known_function
from tf_stitch.graph.loops.functional_loops import lower_loops
from tf_stitch.graph.loops.loop_change import LoopChange
from tf_stitch.graph.loops.loop_hoisting import hoist
from tf_stitch.graph.loops.loop_rows import list_rows
from tf_stitch.graph.loops.loop_state import carry_state
from tf_stitch.graph.loops.native_loops import native_loops
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult
from tf_stitch.planning.remote_stitching import Profiles
from tf_stitch.report.entries import LoopEntry


@dataclass(frozen=True)
class LoopsAsOps:
    """Puts a StitchWhile in the place of each loop whose condition and body are a region each.

    Where regions hold matmuls, bodies hold large ones, too: beside what TensorFlow takes to run the other ops of an
    iteration it matters little who multiplies, and the profitability check compares.

    Attributes:
        enabled: whether loops run as ops.
        controls: what the user lets be taken.
        profiles: of the devices.
    """

    enabled: bool
    controls: Controls
    profiles: Profiles
    name: str = "loops_as_ops"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        # TensorFlow offers a graph again after its rewrite.
        if not self.enabled or not state.has_loops or not STITCH_OPS.isdisjoint(n.op for n in state.graph_def.node):
            return PassResult(state, False)
        found = self._replaced(replace(state, library_on=dict.fromkeys(state.library_on, Matmuls.ALL)))
        before = {entry.name: entry.reason for entry in state.loops if entry.reason is not None}
        entries = (*(entry for entry in state.loops if entry.reason is None),
                   *(LoopEntry(name, None, f"{before[name]}; as one op: {reason}" if name in before else reason)
                     for name, reason in found.stay.items()))
        if not found.changed:
            return PassResult(replace(state, loops=entries).with_import_of(state), False)
        return PassResult(replace(found.state, library_on=state.library_on, loops=entries), True)

    def _replaced(self, state: GraphState) -> LoopChange:
        """The graph with ops. Loops that cannot be one are there as they were: not lowered, no lists, no states."""
        stay: dict[str, str] = {}
        while True:
            lowered = lower_loops(state, known_function, but=stay)
            stay |= lowered.stay
            carried = carry_state(lowered.state, but=stay)
            listed = list_rows(carried.state, but=stay)
            found = native_loops(hoist(listed.state), self.controls, self.profiles)
            other = {*lowered.changed, *carried.changed, *listed.changed}
            left = {name: found.stay[name] for name in other & found.stay.keys()}
            if not left:
                return replace(found, stay={**found.stay, **stay})
            stay |= left
