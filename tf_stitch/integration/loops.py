"""What becomes of a graph's while loops before regions are looked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.frontend.tensorflow.control_flow import ENTERS
from tf_stitch.frontend.tensorflow.importer import TypesOf, import_graph
from tf_stitch.frontend.tensorflow.products import Scope
from tf_stitch.integration.loop_folding import fold_sized_loops
from tf_stitch.integration.loop_unrolling import unroll_loops
from tf_stitch.integration.report import LoopEntry
from tf_stitch.integration.sized_loops import SizedLoops

NOT_FOLDED = "loops whose length is a size were not folded, since a region with one could not run the nodes it replaced"


@dataclass(frozen=True)
class LoopsDone:
    """A graph whose loops are unrolled, or one node each (see sized_loops), where that can be."""

    graph_def: GraphDef
    types_of: TypesOf
    entries: list[LoopEntry] = field(default_factory=list)
    sized: SizedLoops = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        return any(entry.reason is None for entry in self.entries)


def do_loops(graph_def: GraphDef, types_of: TypesOf, preserved: frozenset[str], library_on: Scope,
             fold: bool = True) -> LoopsDone:
    """Unrolls the loops of known length, and folds those whose length is a size.

    Args:
        preserved: names of nodes that must exist afterwards.
        fold: do the second.
    """
    if not any(node.op in ENTERS for node in graph_def.node):
        return LoopsDone(graph_def, types_of)
    unrolled = unroll_loops(graph_def, import_graph(graph_def, types_of, library_on), types_of, preserved)
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
