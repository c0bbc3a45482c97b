"""Cuts one while loop out of a graph for StitchWhile: its body and its condition become regions, its lists tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.control_flow import ENTERS
from tf_stitch.frontend.tensorflow.imported_graph import canonical_tensor
from tf_stitch.frontend.tensorflow.loop_frames import LoopFrame
from tf_stitch.frontend.tensorflow.loop_variables import LoopVariable, LoopVariables
from tf_stitch.frontend.tensorflow.node_context import Check
from tf_stitch.graph.clustering.region_graph import RegionGraph, cut_region, input_key, output_key
from tf_stitch.graph.graph_item import as_tensorflow
from tf_stitch.graph.loops.enclosing_graph import EnclosingGraph
from tf_stitch.graph.loops.induction_variables import InductionVariables
from tf_stitch.graph.loops.lists_as_tensors import ListResult, LoopLists, StackedList
from tf_stitch.graph.loops.loop_device import is_small
from tf_stitch.graph.loops.loop_fallback import LoopNodes, argument
from tf_stitch.graph.loops.loop_list_uses import READS, Use
from tf_stitch.graph.loops.loop_roles import Carried, LoopRoles, Overlay, Stack
from tf_stitch.graph.loops.loop_slice import LoopSlice, LoopSlicer
from tf_stitch.graph.loops.op_inputs import OpInputs
from tf_stitch.graph.loops.role_assignment import RoleAssignment
from tf_stitch.graph.loops.while_node import HostPart, NativeLoop
from tf_stitch.graph.shapes.size_nodes import SizeSource, size_of
from tf_stitch.ir.types import Symbol
from tf_stitch.passes.matmuls_to_kernels import in_a_loop
from tf_stitch.passes.update_in_place import update_in_place

Ends = Sequence[tuple[LoopVariable, NodeDef]]


@dataclass(frozen=True)
class _Parts:
    """Regions of a loop and their roles; `handed_out` as RoleAssignment has it."""

    body: RegionGraph
    condition: RegionGraph
    roles: LoopRoles
    handed_out: dict[str, ListResult]
    host: HostPart | None = None


class LoopCut:
    """One loop. After `loop`: `lists` are those that it hands out, by the Exit's name; `kept` says what Exits of
    variables are that no iteration changes.

    Args:
        graph: gets the nodes that the loop needs outside.
        stacked: lists that come from loops which have been cut out before, by their tensors.
        in_place_bytes: of a carried value of which rows are written in place.
    """

    def __init__(self, frame: LoopFrame, graph: EnclosingGraph, stacked: Mapping[str, StackedList],
                 in_place_bytes: int) -> None:
        self._frame, self._graph, self._in_place_bytes = frame, graph, in_place_bytes
        self._variables = LoopVariables(frame)
        self._induction = InductionVariables(self._variables, graph.imported.statics)
        self._lists = LoopLists(self._variables, self._induction, graph, stacked)
        self._inputs = OpInputs(graph)
        self._condition = canonical_tensor(frame.condition.input[0])
        self.lists: dict[str, ListResult] = {}
        self.kept: dict[str, str] = {}

    def loop(self, name: str, device: str, split: bool) -> NativeLoop:
        """The loop for a node of this name.

        Args:
            split: the host has its own part.

        Raises:
            StitchError: it cannot run as one op; the message says why.
        """
        ends = self._ends()
        parts = self._split(ends) if split else self._whole(ends)
        self.lists = parts.handed_out
        types = tuple(self._result_type(v, exit_) for v, exit_ in ends)
        exits = tuple(exit_.name for _, exit_ in ends)
        own = LoopNodes(self._frame, exits)
        for enter in own.enters:
            self._bring_in(enter, own)
        results = tuple(self._stacked(v, exit_, own) if exit_.name in self.lists else f"{exit_.name}:0"
                        for v, exit_ in ends)
        controls = dict.fromkeys(t for node in self._frame.of(ENTERS) for t in node.input if t.startswith("^"))
        return NativeLoop(name, self._frame.name, device, parts.body, parts.condition, parts.roles,
                          self._inputs.tensors, tuple(self._inputs.types), exits, types, tuple(controls),
                          {n.name: n.op for n in self._frame.nodes}, own.graph.SerializeToString(), results, parts.host)

    def _whole(self, ends: Ends) -> _Parts:
        """The body decides about itself."""
        needed = self._slicer().slice([variable for variable, _ in ends], self._condition)
        body, condition = self._cut_body(needed), self._cut_condition(needed)
        assignment = self._assignment(self._inputs, body, body, self._inputs)
        roles = assignment.roles(condition, ends)
        roles.check(roles)
        return _Parts(_updating(body, roles, self._in_place_bytes), condition, roles, assignment.handed_out)

    def _split(self, ends: Ends) -> _Parts:
        """The host decides, if it can, numbers rows and checks indices: by what it computes itself, beside the body."""
        wanted, inputs = [variable for variable, _ in ends], OpInputs(self._graph)
        needed = self._slicer(own_numbers=False).slice(wanted, None)
        checks = self._checks(needed.body)
        beside = self._beside(needed.numbers, self._condition, checks)
        decides = beside is not None
        if beside is None:
            needed = self._slicer(own_numbers=False).slice(wanted, self._condition)
            checks = self._checks(needed.body)
            if self._checks(needed.condition):
                raise UnsupportedError("its condition on a GPU has an index that is decided at run time")
            beside = self._beside(needed.numbers, None, checks) if needed.numbers or checks else None
            if beside is None and needed.numbers:
                raise UnsupportedError("the host cannot compute which rows an iteration reads or writes")
            if beside is None and checks:
                raise UnsupportedError("the host cannot compute whether the indices of an iteration are inside")
        body = self._cut_body(needed)
        body = replace(body, graph=in_a_loop(body.graph))
        host_body = None if beside is None else self._cut_body(beside, checks)
        condition = self._cut_condition(needed if beside is None or not decides else beside)
        host_roles = LoopRoles()
        if host_body is not None:
            assignment = self._assignment(inputs, host_body, host_body, inputs)
            host_roles = assignment.roles(condition if decides else None, ())
            host_roles.check(host_roles)
        assignment = self._assignment(self._inputs, body, host_body, inputs)
        roles = assignment.roles(None if decides else condition, ends)
        roles.check(host_roles)
        return _Parts(_updating(body, roles, self._in_place_bytes), condition, roles, assignment.handed_out,
                      HostPart(host_body, host_roles, inputs.tensors, tuple(inputs.types), decides))

    def _checks(self, members: Sequence[str]) -> tuple[Check, ...]:
        return tuple(check for name in members for check in self._graph.imported.nodes[name].checks)

    def _beside(self, numbers: Sequence[str], condition: str | None, checks: Sequence[Check]) -> LoopSlice | None:
        """The slice for the host, None if it is not for the host to compute."""
        try:
            needed = self._slicer().slice((), condition, (*numbers, *(check.tensor for check in checks)))
            parts = [self._cut_body(needed, checks)] + ([] if condition is None else [self._cut_condition(needed)])
        except UnsupportedError:
            return None
        return needed if all(is_small(n.type) for part in parts for n in part.graph.nodes()) else None

    def _slicer(self, own_numbers: bool = True) -> LoopSlicer:
        return LoopSlicer(self._variables, self._induction, self._lists, self._graph.imported, own_numbers)

    def _assignment(self, inputs: OpInputs, body: RegionGraph, numbering: RegionGraph | None, counts: OpInputs
                    ) -> RoleAssignment:
        return RoleAssignment(self._variables, self._induction, self._lists, self._graph, inputs, body, numbering,
                              counts)

    def _cut_body(self, needed: LoopSlice, checks: Sequence[Check] = ()) -> RegionGraph:
        return cut_region(self._graph.imported, needed.body, needed.wanted, checks=[check.inside for check in checks])

    def _cut_condition(self, needed: LoopSlice) -> RegionGraph:
        return cut_region(self._graph.imported, needed.condition, [self._condition])

    def _ends(self) -> Ends:
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
        under = self._lists.under(variable)
        if under is not None:
            rows = self._graph.ranked_type(under)[1][0]
        elif rows == -1 and use.use is not Use.PUSHED and not use.grows:
            count = self._graph.imported.statics.get(self._lists.rows(variable))
            rows = -1 if count is None or count.size != 1 else as_tensorflow(count.flat[0], -1)
        return enum, (rows, *dims)

    def _stacked(self, variable: LoopVariable, exit_: NodeDef, own: LoopNodes) -> str:
        """The tensor that the loop's own nodes make of a list. The op's inputs are all known.

        Raises:
            UnsupportedError: elements may have different shapes, as those that a gradient needs of a variable whose
                shape changes.
        """
        item = self._lists.use(variable).item
        sources = {dim: SizeSource(argument(i), self._inputs.types[i][0], len(shape), axis)
                   for i, tensor in enumerate(self._inputs.tensors) if (shape := self._graph.shape(tensor)) is not None
                   for axis, dim in enumerate(shape) if isinstance(dim, Symbol)}
        sizes = [size_of(dim, sources) for dim in self._graph.shape(item) or ()]
        if None in sizes and not any(user.op == "TensorListStack" for user in self._graph.users(exit_)):
            raise UnsupportedError("a list's elements may have different shapes")
        return own.stack(exit_.name, self._graph.type(item)[0], sizes)

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
        under = self._lists.under(variable)
        if under is not None:
            own.start_of_rows(enter.name, self._inputs.number(under), self._graph.type(under)[0])
            return
        dtype, dims = self._graph.ranked_type(use.item)
        if use.use is Use.PUSHED:
            own.start_empty(enter.name, dtype, dims)
        else:
            own.start_reserved(enter.name, self._inputs.number(self._lists.rows(variable)), dtype, dims)


def _updating(body: RegionGraph, roles: LoopRoles, in_place_bytes: int) -> RegionGraph:
    """The body with scatters in place in the carried values of which it writes rows."""
    carriers = Counter(role.output for role in roles.body if isinstance(role, Carried))
    rows = {role.output for role in roles.outputs if isinstance(role, Stack | Overlay)}
    graph = body.graph
    for number, role in enumerate(roles.body):
        if isinstance(role, Carried) and carriers[role.output] == 1 and role.output not in rows:
            graph = update_in_place(graph, input_key(number), output_key(role.output), in_place_bytes)
    return replace(body, graph=graph)
