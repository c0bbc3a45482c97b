"""The slice of a while loop that its results need: what the body has to compute, backwards from the variables that
somebody reads after the loop and from those that the condition reads, through the iterations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.control_flow import ENTERS, MERGES, SWITCHES
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, canonical_tensor, producer_of
from tf_stitch.frontend.tensorflow.importer import SHAPE_ARITHMETIC
from tf_stitch.frontend.tensorflow.loop_variables import LoopVariable, LoopVariables
from tf_stitch.graph.loops.induction_variables import InductionVariables
from tf_stitch.graph.loops.lists_as_tensors import TAKES, LoopLists
from tf_stitch.graph.loops.loop_list_uses import READS


@dataclass(frozen=True)
class LoopSlice:
    """What is needed of a loop; nodes by name, in topological order.

    Attributes:
        wanted: tensors that the body gives.
        body: nodes that compute them within an iteration.
        condition: nodes that compute whether there is another iteration; none if another slice has them.
        numbers: tensors that another body has to have as inputs, since they number rows here.
    """

    wanted: tuple[str, ...]
    body: tuple[str, ...]
    condition: tuple[str, ...]
    numbers: tuple[str, ...]


class LoopSlicer:
    """Slices one loop once.

    Args:
        own_numbers: the body itself has as inputs what numbers rows; else another has.
    """

    def __init__(self, variables: LoopVariables, induction: InductionVariables, lists: LoopLists,
                 imported: ImportedGraph, own_numbers: bool = True) -> None:
        self._variables, self._induction, self._lists, self._imported = variables, induction, lists, imported
        self._wanted: dict[str, None] = {}
        self._numbers = self._wanted if own_numbers else dict[str, None]()

    def slice(self, ends: Iterable[LoopVariable], condition: str | None, numbers: Iterable[str] = ()) -> LoopSlice:
        """
        Args:
            ends: variables whose last value is read.
            condition: the tensor that says whether there is another iteration; None: another slice has it.
            numbers: tensors that the body has to have as inputs.

        Raises:
            UnsupportedError: a node of the slice cannot be in a region, or there is nothing to compute.
        """
        for variable in ends:
            self._want_at_the_end(variable)
        self._wanted |= dict.fromkeys(numbers)
        condition_members, starts = self._behind([] if condition is None else [condition])
        self._want_before(starts)
        members = self._members()
        for part, nodes in (("body", members), ("condition", condition_members)):
            if not nodes and (part == "body" or condition is not None):
                raise UnsupportedError(f"its {part} computes nothing")
        others = () if self._numbers is self._wanted else tuple(self._numbers)
        return LoopSlice(tuple(self._wanted), tuple(members), tuple(condition_members), others)

    def _want_at_the_end(self, variable: LoopVariable) -> None:
        """Has the body give what the last value of a variable is made of."""
        if not self._lists.is_list(variable):
            self._wanted[variable.back] = None
            return
        use = self._lists.use(variable)
        if use.use in READS:
            raise UnsupportedError(f"a list of which elements were {use.use.value} leaves it")
        self._wanted[use.item] = None
        self._want_number(use.index)

    def _want_number(self, index: str) -> None:
        """Has the body hand on the number of an element, so that it is an input, unless it is the iteration's."""
        if index and self._induction.row(index) is None:
            self._numbers[index] = None

    def _want_before(self, starts: Iterable[str]) -> None:
        """Has the body give what an iteration starts from."""
        for tensor in starts:
            node, variable = self._variables.defs[producer_of(tensor)], self._variables.by_tensor.get(tensor)
            if node.op in TAKES:
                self._want_number(self._lists.index(node))
            elif variable is not None and not variable.is_kept:
                self._wanted[variable.back] = None

    def _members(self) -> list[str]:
        """Nodes of the body that give what is wanted, and what they need from the iteration before."""
        while True:
            before = len(self._wanted)
            members, starts = self._behind(list(self._wanted))
            self._want_before(starts)
            if len(self._wanted) == before:
                return members

    def _behind(self, tensors: Sequence[str]) -> tuple[list[str], list[str]]:
        """Nodes that compute tensors within an iteration, in topological order, and the tensors they start from.

        Raises:
            UnsupportedError: one of them cannot be in a region.
        """
        members: set[str] = set()
        starts: dict[str, None] = {}
        pending = [canonical_tensor(t) for t in tensors]
        while pending:
            tensor = pending.pop()
            node = self._variables.defs[producer_of(tensor)]
            if node.op in MERGES | SWITCHES | ENTERS | TAKES:
                starts[tensor] = None
                continue
            reason = self._imported.nodes[node.name].reason
            if node.name in members or node.op == "Const" or reason is SHAPE_ARITHMETIC:
                continue
            if reason is not None:
                raise UnsupportedError(f"{node.name}: {reason}")
            members.add(node.name)
            pending += [canonical_tensor(t) for t in node.input if not t.startswith("^")]
        return [name for name in self._variables.defs if name in members], list(starts)
