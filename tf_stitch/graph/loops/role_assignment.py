"""Gives the inputs of a loop's body and condition, and the loop's results, their roles (loop_roles)."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.imported_graph import producer_of
from tf_stitch.frontend.tensorflow.loop_variables import LoopVariable, LoopVariables
from tf_stitch.graph.clustering.region_graph import RegionGraph, output_key
from tf_stitch.graph.loops.enclosing_graph import EnclosingGraph
from tf_stitch.graph.loops.induction_variables import InductionVariables
from tf_stitch.graph.loops.lists_as_tensors import TAKES, ListResult, LoopLists
from tf_stitch.graph.loops.loop_list_uses import READS, Use
from tf_stitch.graph.loops.loop_roles import (
    BACKWARDS,
    FORWARDS,
    Carried,
    Element,
    Fixed,
    InputRole,
    Last,
    LoopRoles,
    OutputRole,
    Overlay,
    Row,
    Stack,
    row_numbered_by,
)
from tf_stitch.graph.loops.op_inputs import OpInputs


class RoleAssignment:
    """The roles of one body. `handed_out` are the lists among the loop's results, by the Exit's name.

    Args:
        graph: gets copies of constants that are no part of a region.
        inputs: gets what the roles read outside.
        numbering: the body whose inputs number rows; None if there is none.
        counts: gets what says how many rows there are.
    """

    def __init__(self, variables: LoopVariables, induction: InductionVariables, lists: LoopLists, graph: EnclosingGraph,
                 inputs: OpInputs, body: RegionGraph, numbering: RegionGraph | None, counts: OpInputs) -> None:
        self._variables, self._induction, self._lists = variables, induction, lists
        self._graph, self._inputs, self._body = graph, inputs, body
        self._numbering, self._counts = numbering, counts
        self.handed_out: dict[str, ListResult] = {}

    def roles(self, condition: RegionGraph | None, ends: Sequence[tuple[LoopVariable, NodeDef]]) -> LoopRoles:
        """
        Args:
            condition: None if it reads results of another body.
            ends: variables whose last value is a result, with the Exits that hand it out.

        Raises:
            UnsupportedError: no role fits.
        """
        roles = LoopRoles(tuple(self._input(t) for t in self._body.inputs),
                          tuple(self._input(t) for t in (() if condition is None else condition.inputs)),
                          tuple(self._output(v, exit_.name) for v, exit_ in ends))
        _check_carried(roles, self._body)
        return roles

    def _input(self, tensor: str) -> InputRole:
        variable, node = self._variables.by_tensor.get(tensor), self._variables.defs.get(producer_of(tensor))
        if node is None:
            raise UnsupportedError(f"{tensor} is not brought into it")
        if variable is not None and not variable.is_kept:
            return Carried(self._inputs.number(variable.initial), self._body.outputs[variable.back])
        outside = self._variables.from_outside(tensor)
        if outside is not None:
            return Fixed(self._inputs.number(outside))
        if node.op in TAKES:
            return self._element(node)
        if node.op == "Const":
            return Fixed(self._inputs.number(self._outside(node)))
        reason = self._graph.imported.nodes[node.name].reason
        raise UnsupportedError(f"{node.name}: {reason or 'its value is needed'}")

    def _element(self, node: NodeDef) -> Element:
        variable = self._variables.by_tensor.get(self._variables.seen_through(node.input[0]))
        if variable is None:
            raise UnsupportedError(f"{node.name} reads a list that is no variable of the loop")
        use = self._lists.use(variable)
        if use.use not in READS:
            raise UnsupportedError(f"{node.name} reads a list that the loop makes")
        source, index = self._inputs.number(self._lists.source(variable).tensor), self._lists.index(node)
        if use.use is Use.TAKEN and (index != use.index or not self._lists.is_distinct(index)):
            raise UnsupportedError(f"{node.name} may read what the loop has set to zeros")
        return Element(source, self._row(index) if index else Row(BACKWARDS))

    def _row(self, index: str) -> Row:
        """The row of the element that has a number: by the iteration, else by an input of the body."""
        return self._induction.row(index) or self._numbered(index)

    def _numbered(self, index: str) -> Row:
        """The row by an input of the body that has its number."""
        value = self._graph.imported.value(index)
        tensor = None if value is None else self._graph.imported.owner.get(value)
        if self._numbering is None or tensor not in self._numbering.inputs:
            raise UnsupportedError(f"{index} is computed, and numbers an element of a list")
        return row_numbered_by(self._numbering.inputs.index(tensor))

    def _output(self, variable: LoopVariable, exit_: str) -> OutputRole:
        if not self._lists.is_list(variable):
            return Last(self._inputs.number(variable.initial), self._body.outputs[variable.back])
        self.handed_out[exit_] = self._lists.result(variable)
        use = self._lists.use(variable)
        if use.use is Use.PUSHED:
            return Stack(self._body.outputs[use.item], None, Row(FORWARDS))
        row, under = self._row(use.index), self._lists.under(variable)
        if use.grows:
            if row != Row(FORWARDS) or not self._lists.begins_empty(variable):
                raise UnsupportedError("the length of a list is decided by where it is written")
            return Stack(self._body.outputs[use.item], None, row)
        if under is not None:
            return Overlay(self._body.outputs[use.item], self._inputs.number(under), row)
        return Stack(self._body.outputs[use.item], self._counts.number(self._lists.rows(variable)), row)

    def _outside(self, node: NodeDef) -> str:
        """A copy of a large constant outside of the loop, where what the loop starts from is."""
        copy = NodeDef()
        copy.CopyFrom(node)
        copy.input[:] = [f"^{producer_of(self._variables.all[0].initial)}"]
        return self._graph.add(copy, self._graph.types(node.name))


def _check_carried(roles: LoopRoles, body: RegionGraph) -> None:
    """Refuses variables of which it is known that their shape changes."""
    given, results = body.argument_shapes, dict(body.graph.outputs)
    for number, role in enumerate(roles.body):
        if isinstance(role, Carried):
            before, after = given[number], results[output_key(role.output)].type.shape
            if len(before) != len(after) or any(isinstance(a, int) and isinstance(b, int) and a != b
                                                for a, b in zip(before, after, strict=True)):
                raise UnsupportedError(f"{body.inputs[number]} changes its shape")
