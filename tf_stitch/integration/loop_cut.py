"""Cuts one while loop out of a graph for StitchWhile: its body and its condition become regions, its lists tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.control_flow import ENTERS
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor
from tf_stitch.frontend.tensorflow.loop_frames import LoopFrame
from tf_stitch.frontend.tensorflow.loop_list_uses import READS, Use
from tf_stitch.frontend.tensorflow.loop_variables import LoopVariable, LoopVariables
from tf_stitch.integration.enclosing_graph import EnclosingGraph
from tf_stitch.integration.graph_item import as_tensorflow
from tf_stitch.integration.induction_variables import InductionVariables
from tf_stitch.integration.loop_lists import ListResult, LoopLists, StackedList
from tf_stitch.integration.loop_original import LoopNodes
from tf_stitch.integration.loop_slice import LoopSlicer
from tf_stitch.integration.op_inputs import OpInputs
from tf_stitch.integration.region_graph import cut_region
from tf_stitch.integration.role_assignment import RoleAssignment
from tf_stitch.integration.while_node import NativeLoop


class LoopCut:
    """One loop. After `loop`: `lists` are those that it hands out, by the Exit's name; `kept` says what Exits of
    variables are that no iteration changes.

    Args:
        graph: gets the nodes that the loop needs outside.
        stacked: lists that come from loops which have been cut out before, by their tensors.
    """

    def __init__(self, frame: LoopFrame, graph: EnclosingGraph, stacked: Mapping[str, StackedList]) -> None:
        self._frame, self._graph = frame, graph
        self._variables = LoopVariables(frame)
        self._induction = InductionVariables(self._variables, graph.imported.statics)
        self._lists = LoopLists(self._variables, self._induction, graph, stacked)
        self._inputs = OpInputs(graph)
        self.lists: dict[str, ListResult] = {}
        self.kept: dict[str, str] = {}

    def loop(self, name: str) -> NativeLoop:
        """The loop for a node of this name.

        Raises:
            StitchError: it cannot run as one op; the message says why.
        """
        ends, imported = self._ends(), self._graph.imported
        condition_tensor = canonical_tensor(self._frame.condition.input[0])
        slicer = LoopSlicer(self._variables, self._induction, self._lists, imported)
        needed = slicer.slice([variable for variable, _ in ends], condition_tensor)
        body = cut_region(imported, needed.body, needed.wanted)
        condition = cut_region(imported, needed.condition, [condition_tensor])
        assignment = RoleAssignment(self._variables, self._induction, self._lists, self._graph, self._inputs, body)
        roles = assignment.roles(condition, ends)
        self.lists = assignment.handed_out
        types = tuple(self._result_type(v, exit_) for v, exit_ in ends)
        exits = tuple(exit_.name for _, exit_ in ends)
        own = LoopNodes(self._frame, exits)
        for enter in own.enters:
            self._bring_in(enter, own)
        results = tuple(own.stack(exit_, dtype, dims[1:]) if exit_ in self.lists else f"{exit_}:0"
                        for exit_, (dtype, dims) in zip(exits, types, strict=True))
        controls = dict.fromkeys(t for node in self._frame.of(ENTERS) for t in node.input if t.startswith("^"))
        return NativeLoop(name, self._frame.name, self._frame.condition.device, body, condition, roles,
                          self._inputs.tensors, tuple(self._inputs.types), exits, types, tuple(controls),
                          {n.name: n.op for n in self._frame.nodes}, own.graph.SerializeToString(), results)

    def _ends(self) -> Sequence[tuple[LoopVariable, NodeDef]]:
        """Variables whose last value somebody reads, each with the Exit that hands it out; fills `kept`."""
        read = [(v, e) for v in self._variables.all for e in v.exits if self._graph.is_read(e)]
        self.kept = {f"{exit_.name}:0": v.initial for v, exit_ in read if v.is_kept}
        ends = [(v, exit_) for v, exit_ in read if not v.is_kept]
        if not ends:
            raise UnsupportedError("nobody reads what it gives")
        return ends

    def _result_type(self, variable: LoopVariable, exit_: NodeDef) -> tuple[int, tuple[int, ...]]:
        if not self._lists.is_list(variable):
            return self._graph.ranked_type(f"{exit_.name}:0")
        use = self._lists.use(variable)
        enum, dims = self._graph.ranked_type(use.item)
        stacks = [self._graph.types(user.name)[0][1] for user in self._graph.users(exit_)
                  if user.op == "TensorListStack"]
        rows = next((stack[0] for stack in stacks if stack), -1)  # as TensorFlow's other types have it
        if rows == -1 and use.use is not Use.PUSHED:
            count = self._graph.imported.statics.get(self._lists.rows(variable))
            rows = -1 if count is None or count.size != 1 else as_tensorflow(count.flat[0], -1)
        return enum, (rows, *dims)

    def _bring_in(self, enter: NodeDef, own: LoopNodes) -> None:
        """Lets the loop's own nodes start from the op's inputs."""
        variable = next((v for v in self._variables.all if v.enter.name == enter.name), None)
        if variable is None or not self._lists.is_list(variable):
            own.start(enter.name, self._inputs.number(canonical_tensor(enter.input[0])))
            return
        use = self._lists.use(variable)
        if use.use in READS:
            source = self._lists.source(variable).tensor
            own.start_of_rows(enter.name, self._inputs.number(source), self._graph.type(source)[0])
            return
        dtype, dims = self._graph.ranked_type(use.item)
        if use.use is Use.PUSHED:
            own.start_empty(enter.name, dtype, dims)
        else:
            own.start_reserved(enter.name, self._inputs.number(self._lists.rows(variable)), dtype, dims)
