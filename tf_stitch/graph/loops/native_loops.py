"""Puts one op, StitchWhile, in the place of while loops whose condition and body are a region each. Lists of tensors
become tensors whose rows it reads and writes; see loop_roles for what it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import StitchError, UnsupportedError
from tf_stitch.frontend.tensorflow.control_flow import ENTERS, EXITS
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, canonical_tensor, producer_of, topological
from tf_stitch.frontend.tensorflow.importer import TypesOf
from tf_stitch.frontend.tensorflow.loop_frames import LoopFrame, loop_frames, why_not_unrolled
from tf_stitch.graph.control_context import Context, control_contexts, frame_names
from tf_stitch.graph.controls import Controls
from tf_stitch.graph.graph_item import OutputType
from tf_stitch.graph.loops.enclosing_graph import EnclosingGraph
from tf_stitch.graph.loops.lists_as_tensors import ListResult, StackedList
from tf_stitch.graph.loops.loop_cut import LoopCut
from tf_stitch.graph.loops.loop_device import device_of, is_split
from tf_stitch.graph.loops.while_node import NativeLoop, while_node
from tf_stitch.graph.pruning import prune
from tf_stitch.graph.rewired_graph import rewired_graph


@dataclass(frozen=True)
class NativeLoops:
    """A graph with a StitchWhile in the place of each of `loops`; the numbers of their regions are still to be given.

    Attributes:
        stay: loop -> why it is a loop still.
    """

    graph_def: GraphDef
    types_of: TypesOf
    loops: tuple[NativeLoop, ...] = ()
    stay: dict[str, str] = field(default_factory=dict)


def native_loops(graph_def: GraphDef, imported: ImportedGraph, types_of: TypesOf, preserved: frozenset[str],
                 controls: Controls) -> NativeLoops:
    """Replaces each loop that can run as one op.

    Args:
        imported: the graph as it was imported.
        preserved: names of nodes that must exist afterwards.
        controls: what the user lets be taken.
    """
    order = list(topological({node.name: node for node in graph_def.node}))
    contexts = control_contexts(imported, frame_names(graph_def))
    graph = _Graph(order, imported, types_of, preserved)
    stay: dict[str, str] = {}
    for name, frame in _ended_first(loop_frames(order), order):
        try:
            if isinstance(frame, str):
                raise UnsupportedError(frame)
            reason = why_not_unrolled(frame, preserved) or next(
                (why for n in frame.nodes if (why := controls.why_not(n.name)) is not None), None)
            if reason is not None:
                raise UnsupportedError(reason)
            graph.replace(frame, contexts, controls)
        except StitchError as error:
            stay[name] = error.message if error.loc is None or not error.loc.node else str(error)
    if not graph.loops:
        return NativeLoops(graph_def, types_of, stay=stay)
    return NativeLoops(graph.rewritten(graph_def), graph.types, tuple(graph.loops), stay)


def _ended_first(frames: Mapping[str, LoopFrame | str], order: Sequence[NodeDef]
                 ) -> list[tuple[str, LoopFrame | str]]:
    """Loops in an order in which they could run: an Exit comes after all of its loop, and before what reads it."""
    place = {node.name: i for i, node in enumerate(order)}

    def end(frame: LoopFrame | str) -> int:
        return min((place[n.name] for n in frame.of(EXITS)), default=0) if isinstance(frame, LoopFrame) else 0

    return sorted(frames.items(), key=lambda item: end(item[1]))


def _alive_together(frame: LoopFrame, nodes: Sequence[NodeDef], contexts: Mapping[str, Context]) -> bool:
    """Whether nodes that stand for a loop run where it was entered, perhaps within another loop, and only there."""
    where = {canonical_tensor(n.input[0]): contexts[n.name] - {("frame", frame.name)} for n in frame.of(ENTERS)}
    entered = frozenset[tuple[str, object]]().union(*where.values())
    found = [where.get(t) or contexts.get(producer_of(t), frozenset()) for node in nodes for t in node.input]
    return not any(str(kind).startswith("if:") for kind, _ in entered) and entered == frozenset().union(*found)


class _Graph:
    """A graph whose loops are replaced one by one, forward loops before those of their gradients."""

    def __init__(self, order: Sequence[NodeDef], imported: ImportedGraph, types_of: TypesOf,
                 preserved: frozenset[str]) -> None:
        self._imported, self._types_of, self._preserved = imported, types_of, preserved
        self._defs = {node.name: node for node in order}
        self._users: dict[str, list[NodeDef]] = {}
        for node in order:
            for edge in dict.fromkeys(producer_of(t) for t in node.input):
                self._users.setdefault(edge, []).append(node)
        self._lists: dict[str, StackedList] = {}
        self._gone: set[str] = set()
        self._new: list[NodeDef] = []
        self._new_types: dict[str, list[OutputType]] = {}
        self._renamed: dict[str, str] = {}
        self.loops: list[NativeLoop] = []

    def types(self, name: str) -> list[OutputType]:
        return self._new_types.get(name) or self._types_of(name)

    def replace(self, frame: LoopFrame, contexts: Mapping[str, Context], controls: Controls) -> None:
        """Puts a node in the place of one loop, if there is fuel for its regions.

        Args:
            contexts: of the graph's nodes.

        Raises:
            StitchError: the loop has to stay a loop; the message says why.
        """
        name = f"{frame.name}/stitched"
        if name in self._defs:
            raise UnsupportedError(f"a node is called {name}")
        around = EnclosingGraph(frame.name, self._imported, self.types, self._defs, self._users)
        device = device_of(frame, around)
        cut = LoopCut(frame, around, self._lists)
        loop = cut.loop(name, device, is_split(device))
        new = [*around.new.values(), while_node(loop)]
        if not _alive_together(frame, new, contexts):
            raise UnsupportedError("it is in a branch")
        regions = 1 + len(loop.parts)
        if controls.take(regions) < regions:
            raise UnsupportedError(controls.out_of_fuel)
        self._new += new
        self._new_types |= {added: around.types(added) for added in around.new}
        self._new_types[name] = list(loop.result_types)
        inside = {node.name for node in frame.nodes}
        self._gone |= inside
        self._renamed |= {f"^{inner}": f"^{name}" for inner in inside} | cut.kept
        for i, exit_ in enumerate(loop.results):
            if exit_ in cut.lists:
                self._hand_out(exit_, f"{name}:{i}", cut.lists[exit_])
            else:
                self._renamed[f"{exit_}:0"] = f"{name}:{i}"
        self.loops.append(loop)

    def _hand_out(self, exit_: str, tensor: str, result: ListResult) -> None:
        """Who stacks the list reads the rows; for who needs a list there is one that is made of them."""
        self._lists[f"{exit_}:0"] = StackedList(tensor, result.distinct)
        for user in self._users.get(exit_, ()):
            if user.op == "TensorListStack" and user.name not in self._preserved:
                self._gone.add(user.name)
                self._renamed |= {f"{user.name}:0": tensor, f"^{user.name}": f"^{producer_of(tensor)}"}
        node = NodeDef(name=exit_, op="TensorListFromTensor", device=self._defs[exit_].device,
                       input=[tensor, result.element_shape])
        node.attr["element_dtype"].type = self.types(producer_of(tensor))[int(tensor.rpartition(":")[2])][0]
        node.attr["shape_type"].type = self.types(producer_of(result.element_shape))[0][0]
        self._new.append(node)

    def rewritten(self, graph_def: GraphDef) -> GraphDef:
        out = rewired_graph(graph_def, self._gone, self._new, self._renamed)
        prune(out, graph_def, self._preserved)
        return out
