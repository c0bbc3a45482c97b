"""What becomes of a graph's while loops before regions are looked for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.config import StitchConfig
from tf_stitch.frontend.tensorflow.control_flow import ENTERS
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph
from tf_stitch.frontend.tensorflow.importer import TypesOf, import_graph
from tf_stitch.frontend.tensorflow.matmul_scope import Matmuls, Scope
from tf_stitch.graph.controls import Controls
from tf_stitch.graph.loops.function_inlining import known_function
from tf_stitch.graph.loops.functional_loops import WHILES, lower_loops
from tf_stitch.graph.loops.loop_folding import fold_sized_loops
from tf_stitch.graph.loops.loop_hoisting import Hoisted, hoist
from tf_stitch.graph.loops.loop_rows import list_rows
from tf_stitch.graph.loops.loop_unrolling import unroll_loops
from tf_stitch.graph.loops.native_loops import NativeLoops, native_loops
from tf_stitch.graph.loops.sized_loops import SizedLoops, legalizations
from tf_stitch.graph.loops.while_node import NativeLoop
from tf_stitch.graph.validation import STITCH_OPS
from tf_stitch.report.entries import LoopEntry
from tf_stitch.runtime.host_builder import compiler

NOT_FOLDED = "loops whose length is a size were not folded, since a region with one could not run the nodes it replaced"


@dataclass(frozen=True)
class LoopWays:
    """What may become of loops: copies of their bodies if their length is known (`unroll`), or if it is a size
    (`fold`); one op each (`as_ops`)."""

    unroll: bool
    fold: bool
    as_ops: bool

    @staticmethod
    def by(config: StitchConfig, device: str, native: bool, fold: bool = True) -> LoopWays:
        """What the user asks for.

        Args:
            device: "GPU" if any node of the graph is on one, else "CPU".
            native: regions run as the native op.
        """
        unroll = _wanted(config.unroll, device == "GPU")
        return LoopWays(unroll, unroll and fold, native and _wanted(config.loop_op, device == "CPU" or _host_builds()))


@dataclass(frozen=True)
class LoopsDone:
    """A graph without the loops that need not be loops.

    Attributes:
        entries: what became of each, but for those of `native`.
        sized: loops that are one node each whose length is a size, by the node's name.
        native: loops that run as one op each; their nodes in the graph have no regions' numbers yet.
        before: the graph where these are loops still.
    """

    graph_def: GraphDef
    types_of: TypesOf
    entries: list[LoopEntry] = field(default_factory=list)
    sized: SizedLoops = field(default_factory=dict)
    native: tuple[NativeLoop, ...] = ()
    before: GraphDef | None = None

    @property
    def changed(self) -> bool:
        return bool(self.native) or any(entry.reason is None for entry in self.entries)

    def shown(self, graph_def: GraphDef) -> GraphDef:
        """The graph, prepared further, with the nodes of loops where ops run them: for the report."""
        if self.before is None:
            return graph_def
        kept = {node.name for node in graph_def.node} | {name for loop in self.native for name in loop.nodes}
        shown = GraphDef()
        shown.node.extend(node for node in self.before.node if node.name in kept)
        return shown


def do_loops(graph_def: GraphDef, types_of: TypesOf, preserved: frozenset[str], library_on: Scope, ways: LoopWays,
             controls: Controls) -> LoopsDone:
    """Does with loops what can be done: unrolled first, folded then, what is left as one op.

    Args:
        preserved: names of nodes that must exist afterwards.
        controls: what the user lets be taken, of loops that would run as one op.
    """
    done = LoopsDone(graph_def, types_of)
    if not any(node.op in ENTERS | WHILES for node in graph_def.node):
        return done
    if ways.unroll:
        done = _copied(done, preserved, library_on, ways.fold)
    ops = {node.op for node in done.graph_def.node}
    # TensorFlow offers a graph again after its rewrite.
    if ways.as_ops and ops & (ENTERS | WHILES) and not ops & STITCH_OPS:
        done = _as_ops(done, preserved, library_on, controls)
    return done


def _copied(done: LoopsDone, preserved: frozenset[str], library_on: Scope, fold: bool) -> LoopsDone:
    """Loops become copies of their bodies, now or when they run."""
    unrolled = unroll_loops(done.graph_def, import_graph(done.graph_def, done.types_of, library_on), done.types_of,
                            preserved)
    entries = [LoopEntry(name, steps, None) for name, steps in unrolled.steps.items()]
    if not unrolled.stay:
        return LoopsDone(unrolled.graph_def, unrolled.types_of, entries)
    if not fold:
        entries += [LoopEntry(name, None, f"{reason}; {NOT_FOLDED}") for name, reason in unrolled.stay.items()]
        return LoopsDone(unrolled.graph_def, unrolled.types_of, entries)
    imported = import_graph(unrolled.graph_def, unrolled.types_of, library_on)
    folded = fold_sized_loops(unrolled.graph_def, imported, unrolled.types_of, preserved)
    entries += [LoopEntry(name, None, None) for name in folded.loops]
    entries += [LoopEntry(name, None, reason) for name, reason in folded.stay.items()]
    return LoopsDone(folded.graph_def, folded.types_of, entries, folded.sized)


def _as_ops(done: LoopsDone, preserved: frozenset[str], library_on: Scope, controls: Controls) -> LoopsDone:
    """Loops that are left become one op each. Where regions hold products, bodies hold large ones, too: beside what
    TensorFlow takes to run the other ops of an iteration it matters little who multiplies, and the guard compares."""
    hoisted, found = _native(done, preserved, library_on, controls)
    before = {entry.name: entry.reason for entry in done.entries if entry.reason is not None}
    entries = [entry for entry in done.entries if entry.reason is None]
    entries += [LoopEntry(name, None, f"{before[name]}; as one op: {reason}" if name in before else reason)
                for name, reason in found.stay.items()]
    if not found.loops:
        return replace(done, entries=entries)
    return LoopsDone(found.graph_def, found.types_of, entries, done.sized, found.loops, hoisted.graph_def)


def _native(done: LoopsDone, preserved: frozenset[str], library_on: Scope, controls: Controls
            ) -> tuple[Hoisted, NativeLoops]:
    """The graph with loops that could be ops, and with these. Those that cannot are there as they were."""
    def imported_as(graph_def: GraphDef, types_of: TypesOf) -> ImportedGraph:
        return import_graph(graph_def, types_of, dict.fromkeys(library_on, Matmuls.ALL), legalizations(done.sized))

    stay: dict[str, str] = {}
    while True:
        lowered = lower_loops(done.graph_def, done.types_of, preserved, known_function, but=stay)
        stay |= lowered.stay
        listed = list_rows(lowered.graph_def, lowered.types_of, but=stay)
        hoisted = hoist(listed.graph_def, listed.types_of, preserved,
                        partial(imported_as, listed.graph_def, listed.types_of))
        imported = imported_as(hoisted.graph_def, hoisted.types_of)
        found = native_loops(hoisted.graph_def, imported, hoisted.types_of, preserved, controls)
        left = {name: found.stay[name] for name in (lowered.loops | listed.loops) & found.stay.keys()}
        if not left:
            return hoisted, replace(found, stay=found.stay | stay)
        stay |= left


def _host_builds() -> bool:
    """Whether there can be kernels for the host beside a GPU."""
    return compiler() is not None


def _wanted(choice: str, auto: bool) -> bool:
    return auto if choice == "auto" else choice == "1"
