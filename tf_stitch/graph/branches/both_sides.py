"""Branches of which both sides may be computed, whichever is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TypeAlias

from tf_stitch.frontend.tensorflow.control_context import Context, context_of, control_contexts, truth_of
from tf_stitch.frontend.tensorflow.control_flow import MERGES, SWITCHES
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, producer_of
from tf_stitch.graph.branches.branch_nodes import (
    ForNothing,
    Merges,
    maybe_new,
    multiplications_of,
    why_not_for_nothing,
    why_not_on_one_gpu,
)
from tf_stitch.graph.branches.update_orders import unordered_updates
from tf_stitch.ir.dtypes import DType

BRANCH = "if:"
_MAY_FIND_NONE = frozenset({"VarIsInitializedOp", "IsVariableInitialized"})
"""Who asks that may not read a variable where it is told no."""

Sides: TypeAlias = tuple[tuple[str, bool], ...]
"""Predicates, and whether each is true."""


@dataclass(frozen=True)
class Branches:
    """What is to be made of a graph's branches.

    Attributes:
        stay: tensors that are predicates of branches which stay -> why, the first reason that was found.
        for_nothing: predicates of branches that become selects -> bytes updated and chosen for nothing at most.
        members: predicate -> names of the nodes on its sides, and of its Merges.
        sides: node -> the sides that it is on, of each branch that becomes selects and holds it.
        around: node -> the loops, and the sides of branches that stay, that it is in.
        merges: Merge of such a branch -> (predicate, value if it is true, value if it is false).
        values: names of nodes whose value somebody reads, Merges among them.
    """

    stay: Mapping[str, str]
    for_nothing: Mapping[str, int]
    members: Mapping[str, Sequence[str]]
    sides: Mapping[str, Sides]
    around: Mapping[str, Context]
    merges: Merges
    values: Set[str]

    @property
    def predicates(self) -> Set[str]:
        """Predicates of branches that become selects."""
        return self.for_nothing.keys()


def branches_of(graph: ImportedGraph, frames: Mapping[str, str], preserved: Set[str], most: ForNothing) -> Branches:
    """Branches in which nothing but what a kernel of ours computes happens, and updates of whole variables, on one GPU;
    and not much for nothing.

    Args:
        frames: as control_contexts has them.
        preserved: names of nodes that must exist, and may be fetched.
        most: that one of them may do for nothing.
    """
    return _Decision(graph, control_contexts(graph, frames), preserved, most).branches()


class _Decision:
    def __init__(self, graph: ImportedGraph, contexts: Mapping[str, Context], preserved: Set[str], most: ForNothing
                 ) -> None:
        self._graph, self._contexts, self._preserved, self._most = graph, contexts, preserved, most
        self._merges = dict(self._found_merges())
        self._values = _read(graph, MERGES) | preserved & graph.nodes.keys()
        self._members: dict[str, list[str]] = {}
        for name, context in contexts.items():
            for predicate in _predicates(context):
                self._members.setdefault(predicate, []).append(name)
        for name, (predicate, _, _) in self._merges.items():
            self._members.setdefault(predicate, []).append(name)
        self._new = maybe_new(graph)
        self._stay: dict[str, str] = {}

    def branches(self) -> Branches:
        """What is decided."""
        sizes = self._decide()
        fit = self._fit()
        sides = {name: tuple((p, port == "1") for p, port in _sides(context) if p in fit)
                 for name, context in self._contexts.items()}
        gone = {f"{BRANCH}{p}" for p in fit}
        around = {name: frozenset((key, port) for key, port in context if key not in gone)
                  for name, context in self._contexts.items()}
        return Branches(self._stay, {p: sizes[p] for p in fit}, self._members,
                        {name: found for name, found in sides.items() if found}, around,
                        {name: merge for name, merge in self._merges.items() if merge[0] in fit}, self._values)

    def _decide(self) -> dict[str, int]:
        """Finds why branches stay; of the others, bytes that are updated or chosen for nothing."""
        for predicate, why in self._of_switches():
            self._stay.setdefault(predicate, why)
        for predicate, why in self._of_merges():
            self._stay.setdefault(predicate, why)
        sizes: dict[str, int] = {}
        for predicate, names in self._members.items():
            why_not = self._stay.get(predicate) or self._why_not(predicate, names)
            if why_not is None:
                sizes[predicate] = self._bytes_for_nothing(predicate, names)
                if sizes[predicate] > self._most.nbytes:
                    why_not = f"{sizes[predicate] >> 20} MiB would be updated or chosen for nothing"
            if why_not is not None:
                self._stay[predicate] = why_not
        for update, other in unordered_updates(self._graph, self._contexts):
            for predicate in _predicates(self._contexts[update]):
                self._stay.setdefault(predicate, f"{update} updates a variable in no order with {other}")
        while found := {p: apart for p in self._fit() if (apart := self._why_not_apart(p)) is not None}:
            self._stay |= found
        return sizes

    def _fit(self) -> list[str]:
        return [predicate for predicate in self._members if predicate not in self._stay]

    def _found_merges(self) -> Iterator[tuple[str, tuple[str, str, str]]]:
        for name, node in self._graph.nodes.items():
            if node.op != "Merge" or len(node.inputs) != 2:
                continue
            first, second = (dict(_sides(context_of(self._graph, self._contexts, t))) for t in node.inputs)
            parted = [p for p in first if {first[p], second.get(p)} == {"0", "1"}]
            if len(parted) == 1:
                true, false = node.inputs if first[parted[0]] == "1" else reversed(node.inputs)
                yield name, (parted[0], true, false)

    def _of_switches(self) -> Iterator[tuple[str, str]]:
        """Predicates of switches that we skip, with why."""
        if asks := next((n.name for n in self._graph.nodes.values() if n.op in _MAY_FIND_NONE), None):
            yield from ((p, f"{asks} asks whether a variable has a value: it may have none") for p in self._members)
        for node in self._graph.nodes.values():
            if node.op not in SWITCHES:
                continue
            predicate = truth_of(self._graph, node.inputs[1])
            if node.op != "Switch":
                yield predicate, f"{node.name} is a {node.op}, not a Switch"
            elif node.name in self._preserved and f"{node.name}:0" not in self._graph.handles:
                yield predicate, f"{node.name} may be fetched"
            value = self._graph.value(predicate)
            if value is None or value.type.dtype is not DType.BOOL or value.type.shape != ():
                yield predicate, f"{predicate} is not known to be a single truth value"

    def _of_merges(self) -> Iterator[tuple[str, str]]:
        """Predicates whose sides meet in a Merge that does not choose by them alone, with why. A Merge that is left
        would have two values, or none."""
        asked = {producer_of(t) for n in self._graph.nodes.values() for t in n.inputs if t.endswith(":1")}
        for node in self._graph.nodes.values():
            if node.op not in MERGES:
                continue
            own, kept = self._merges.get(node.name, ("", "", ""))[0], self._contexts[node.name]
            for tensor in node.inputs:
                if producer_of(tensor) in self._contexts:
                    for predicate in _predicates(context_of(self._graph, self._contexts, tensor) - kept) - {own}:
                        yield predicate, f"{node.name} is not the Merge of two sides of one branch"
            if own and node.name in asked:
                yield own, f"{node.name} is asked which side was taken"

    def _why_not(self, predicate: str, names: Sequence[str]) -> str | None:
        """Why a node of a branch may not run for nothing, or is not where others are."""
        graph, expected, multiplied = self._graph, self._expected(predicate), 0
        for name in names:
            node = graph.nodes[name]
            if any(not key.startswith(BRANCH) for key, _ in self._contexts[name]):
                return f"{name} is in a loop"
            why_not = why_not_for_nothing(graph, node, self._merges, self._values, self._preserved, self._new,
                                          self._most.multiplications)
            if why_not is not None:
                return why_not
            largest = max((v.type.nbytes for v in node.outputs if v is not None and node.weight and v.type.is_static),
                          default=0)
            sides = _sides(self._contexts[name])
            if largest > self._most.nbytes and expected not in sides and node.op not in MERGES:
                return f"{name} would make {largest >> 20} MiB for nothing"
            multiplied += multiplications_of(graph, node) if node.library and expected not in sides else 0
        if multiplied > self._most.multiplications:
            return f"{multiplied:,} multiplications of matmuls would be for nothing"
        return why_not_on_one_gpu([graph.nodes[name] for name in names])

    def _why_not_apart(self, predicate: str) -> str | None:
        """Why a branch cannot become selects among those that stay: one is in it, or it is on several of its sides."""
        around = {name: {(p, port) for p, port in _sides(self._contexts[name]) if p in self._stay}
                  for name in self._members[predicate]}
        first = around[self._members[predicate][0]]
        for name, found in around.items():
            if found != first:
                other = min(found ^ first, key=str)[0]
                return f"of the branch on {other}, which stays, it is on one side or around it ({name})"
        for name, (own, _, _) in self._merges.items():
            if own == predicate:
                for control in self._graph.nodes[name].control_inputs:
                    others = _predicates(self._contexts.get(control, frozenset()) - self._contexts[name])
                    if others & self._stay.keys():
                        return f"{name} waits for {control}, which is in a branch that stays"
        return None

    def _expected(self, predicate: str) -> tuple[str, str] | None:
        """The side that is mostly taken: where a test holds of all elements, as of gradients that are finite."""
        return (predicate, "1") if self._graph.nodes[producer_of(predicate)].op == "All" else None

    def _bytes_for_nothing(self, predicate: str, names: Sequence[str]) -> int:
        """Of what is updated, and of values to choose from. What is expected is not for nothing."""
        graph, expected = self._graph, self._expected(predicate)
        made = [value for name in names if expected not in _sides(self._contexts[name])
                for value in graph.nodes[name].writes.values()]
        for name in names:
            if name in self._merges and self._merges[name][0] == predicate and name in self._values and not expected:
                made += [value for tensor in self._merges[name][1:] if (value := graph.value(tensor)) is not None]
        return sum(value.type.nbytes for value in made)


def _sides(context: Context) -> list[tuple[str, object]]:
    """In an order that does not change from process to process."""
    return sorted((key.removeprefix(BRANCH), port) for key, port in context if key.startswith(BRANCH))


def _predicates(context: Context) -> set[str]:
    return {predicate for predicate, _ in _sides(context)}


def _read(graph: ImportedGraph, ops: Set[str]) -> frozenset[str]:
    """Nodes of some ops whose value somebody reads."""
    read = {producer_of(tensor) for node in graph.nodes.values() for tensor in node.inputs}
    return frozenset(name for name in read if graph.nodes[name].op in ops)
