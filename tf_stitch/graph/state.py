"""A TensorFlow graph on its way through the graph passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.frontend.tensorflow.control_flow import ENTERS, WHILES
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph
from tf_stitch.frontend.tensorflow.importer import TypesOf, import_graph
from tf_stitch.frontend.tensorflow.matmul_scope import NO_MATMULS, Scope
from tf_stitch.frontend.tensorflow.registry import Legalization
from tf_stitch.graph.clustering.region_graph import Assumption
from tf_stitch.graph.loops.folded_loop import FoldedLoops
from tf_stitch.graph.loops.while_node import NativeLoop
from tf_stitch.graph.shapes.given_sizes import GivenSizes
from tf_stitch.ir.types import Symbol
from tf_stitch.report.entries import BranchEntry, LoopEntry


@dataclass
class ImportCount:
    """How often a graph was imported while it was rewritten, shared by all of its states."""

    imports: int = 0


@dataclass(frozen=True, eq=False)
class GraphState:
    """A graph and what passes found out about it. Passes make new states, and leave the graph of the old one alone.

    Attributes:
        graph_def: the graph; nobody edits it once it is in a state.
        types_of: types of every node's outputs.
        preserved: names of nodes that must exist afterwards.
        library_on: on which device types regions hold which matmuls, and convolutions.
        feeds: names of preserved nodes whose result the caller gives.
        device_type: "GPU" if any node of the graph is on one, else "CPU".
        is_own: whether a device is of this process, where alone our ops run.
        count: of imports.
        legalizations: how ops become IR that this graph alone has: folded loops.
        equal: symbolic dimension -> the common name of those that are assumed equal.
        assumption: what regions have to check that rely on such; None if there are none.
        sized: folded loops by the name of the node that stands for them.
        native: loops that run as one op each; their nodes have no regions' numbers yet.
        loops: what became of each loop, but for those of `native`.
        branches: what became of each conditional.
        before_native: the graph in which the loops of `native` are loops still.
        given_sizes: where the program's nodes read sizes, of those that read them elsewhere.
    """

    graph_def: GraphDef
    types_of: TypesOf
    preserved: frozenset[str]
    library_on: Scope = field(default_factory=lambda: NO_MATMULS)
    feeds: frozenset[str] = frozenset()
    device_type: str = "CPU"
    is_own: Callable[[str], bool] = lambda device: True
    count: ImportCount = field(default_factory=ImportCount)
    legalizations: Mapping[str, Legalization] = field(default_factory=dict)
    equal: Mapping[Symbol, Symbol] = field(default_factory=dict)
    assumption: Assumption | None = None
    sized: FoldedLoops = field(default_factory=dict)
    native: tuple[NativeLoop, ...] = ()
    loops: tuple[LoopEntry, ...] = ()
    branches: tuple[BranchEntry, ...] = ()
    before_native: GraphDef | None = None
    given_sizes: GivenSizes = field(default_factory=GivenSizes)

    @cached_property
    def imported(self) -> ImportedGraph:
        """The graph as tensor IR, imported when a pass first asks for it.

        Raises:
            UnsupportedError: the graph has a cycle that is no loop, or an input that is no node.
        """
        self.count.imports += 1
        return import_graph(self.graph_def, self.types_of, self.library_on, self.legalizations, self.equal)

    @property
    def sure(self) -> ImportedGraph:
        """As `imported`, with no dimensions assumed equal."""
        return self.imported if self.assumption is None else self.assumption.sure

    @property
    def without_assumption(self) -> GraphState:
        """The state before dimensions were assumed equal."""
        if self.assumption is None:
            return self
        return replace(self, equal={}, assumption=None).with_import(self.assumption.sure)

    def copy_graph(self) -> GraphDef:
        """A copy of the graph, for a pass to edit."""
        copy = GraphDef()
        copy.CopyFrom(self.graph_def)
        return copy

    def with_graph(self, graph_def: GraphDef, types_of: TypesOf | None = None) -> GraphState:
        """With another graph, and types of its nodes if there are new ones."""
        return replace(self, graph_def=graph_def, types_of=types_of or self.types_of)

    @property
    def has_loops(self) -> bool:
        """Whether there are while loops, as ops that call functions or lowered."""
        return any(node.op in ENTERS | WHILES for node in self.graph_def.node)

    def with_import_of(self, other: GraphState) -> GraphState:
        """The same state; its graph is that of another one, of which the import may be known."""
        return self.with_import(other.__dict__["imported"]) if "imported" in other.__dict__ else self

    def with_import(self, imported: ImportedGraph) -> GraphState:
        """The same state, of which the import is known."""
        self.__dict__["imported"] = imported
        return self

    def shown(self) -> GraphDef:
        """The graph for the report, with the nodes of loops where ops run them."""
        if self.before_native is None:
            return self.graph_def
        kept = {node.name for node in self.graph_def.node} | {name for loop in self.native for name in loop.nodes}
        shown = GraphDef()
        shown.node.extend(node for node in self.before_native.node if node.name in kept)
        return shown
