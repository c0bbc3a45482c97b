"""Puts one op, StitchWhile, in the place of while loops whose condition and body are a region each. Lists of tensors
become tensors whose rows it reads and writes; see loop_roles for what it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import StitchError, UnsupportedError
from tf_stitch.frontend.tensorflow.control_context import Context, control_contexts, frame_names
from tf_stitch.frontend.tensorflow.control_flow import ENTERS, EXITS
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.loop_frames import LoopFrame, loop_frames, why_not_unrolled
from tf_stitch.graph.clustering.controls import Controls
from tf_stitch.graph.graph_edit import GraphEdit
from tf_stitch.graph.loops.enclosing_graph import EnclosingGraph
from tf_stitch.graph.loops.lists_as_tensors import ListResult, StackedList
from tf_stitch.graph.loops.loop_change import LoopChange
from tf_stitch.graph.loops.loop_cut import LoopCut
from tf_stitch.graph.loops.loop_device import device_of, is_split
from tf_stitch.graph.loops.while_node import NativeLoop, while_node
from tf_stitch.graph.origin import set_origin
from tf_stitch.graph.state import GraphState
from tf_stitch.planning.remote_stitching import Profiles, profile_of


def native_loops(state: GraphState, controls: Controls, profiles: Profiles) -> LoopChange:
    """Puts a StitchWhile in the place of each loop that can run as one op; the numbers of their regions are still to be
    given.

    Args:
        controls: what the user lets be taken.
        profiles: of the devices.
    """
    contexts = control_contexts(state.imported, frame_names(state.graph_def))
    replacement = _Replacement(state, profiles)
    changed: dict[str, None] = {}
    stay: dict[str, str] = {}
    order = replacement.edit.order
    for name, frame in _ended_first(loop_frames(order), order):
        try:
            if isinstance(frame, str):
                raise UnsupportedError(frame)
            reason = why_not_unrolled(frame, state.preserved) or next(
                (why for n in frame.nodes if (why := controls.why_not(n.name)) is not None), None)
            if reason is not None:
                raise UnsupportedError(reason)
            replacement.replace(frame, contexts, controls)
        except StitchError as error:
            stay[name] = error.message if error.loc is None or not error.loc.node else str(error)
        else:
            changed[name] = None
    if not changed:
        return LoopChange(state, stay=stay)
    after = replace(replacement.edit.applied(), native=tuple(replacement.loops), before_native=state.graph_def)
    return LoopChange(after, changed, stay)


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


class _Replacement:
    """Ops that take the place of loops, one by one, forward loops before those of their gradients."""

    def __init__(self, state: GraphState, profiles: Profiles) -> None:
        self.edit, self._profiles = GraphEdit(state), profiles
        self.loops: list[NativeLoop] = []
        self._lists: dict[str, StackedList] = {}

    def replace(self, frame: LoopFrame, contexts: Mapping[str, Context], controls: Controls) -> None:
        """Puts a node in the place of one loop, if there is fuel for its regions.

        Args:
            contexts: of the graph's nodes.

        Raises:
            StitchError: the loop has to stay a loop; the message says why.
        """
        edit = self.edit
        name = edit.free_name(f"{frame.name}/stitched")
        around = EnclosingGraph(frame.name, edit.state.imported, edit.types, edit.defs, edit.users)
        device = device_of(frame, around, edit.state.is_own)
        cut = LoopCut(frame, around, self._lists, profile_of((device,), self._profiles).sizes.in_place_bytes)
        loop = cut.loop(name, device, is_split(device))
        new = [*around.new.values(), while_node(loop)]
        set_origin(new[-1], [edit.defs[name] for name in loop.body.members if name in edit.defs])
        if not _alive_together(frame, new, contexts):
            raise UnsupportedError("it is in a branch")
        regions = 1 + len(loop.parts)
        if controls.take(regions) < regions:
            raise UnsupportedError(controls.out_of_fuel)
        edit.new += new
        edit.new_types |= {added: around.types(added) for added in around.new}
        edit.new_types[name] = list(loop.result_types)
        inside = {node.name for node in frame.nodes}
        edit.gone |= inside
        edit.renamed |= {f"^{inner}": f"^{name}" for inner in inside} | cut.kept
        for i, exit_ in enumerate(loop.results):
            if exit_ in cut.lists:
                self._hand_out(exit_, f"{name}:{i}", cut.lists[exit_])
            else:
                edit.renamed[f"{exit_}:0"] = f"{name}:{i}"
        self.loops.append(loop)

    def _hand_out(self, exit_: str, tensor: str, result: ListResult) -> None:
        """What stacks the list reads the rows; for who needs a list there is one that is made of them."""
        edit = self.edit
        self._lists[f"{exit_}:0"] = StackedList(tensor, result.distinct)
        for user in edit.users.get(exit_, ()):
            if user.op == "TensorListStack" and user.name not in edit.state.preserved:
                edit.gone.add(user.name)
                edit.renamed |= {f"{user.name}:0": tensor, f"^{user.name}": f"^{producer_of(tensor)}"}
        node = NodeDef(name=exit_, op="TensorListFromTensor", device=edit.defs[exit_].device,
                       input=[tensor, result.element_shape])
        node.attr["element_dtype"].type = edit.types(producer_of(tensor))[int(tensor.rpartition(":")[2])][0]
        node.attr["shape_type"].type = edit.types(producer_of(result.element_shape))[0][0]
        edit.new.append(node)
