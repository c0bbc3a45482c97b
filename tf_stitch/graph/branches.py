"""Branches of which both sides may be computed, whichever is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import TypeAlias

from tf_stitch.frontend.tensorflow.attributes import is_stateful
from tf_stitch.frontend.tensorflow.control_flow import MERGES
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, ImportedNode, producer_of
from tf_stitch.frontend.tensorflow.importer import SHAPE_ARITHMETIC, device_type
from tf_stitch.graph.control_context import Context, context_of, control_contexts

ASSIGNMENTS = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})
MOST_BYTES = 1 << 26
"""Of variables and values for nothing. An H200 reads and writes as much in 28 us by its bandwidth; four regions of a
small step, for three branches, took 0.7 ms more than one (docs/decisions/branches.md)."""
_BRANCH = "if:"
_ANYWHERE = frozenset({"Const", "NoOp"})
_PASS_ON = _ANYWHERE | {"Identity", "Switch"}
_MAY_FIND_NONE = frozenset({"VarIsInitializedOp", "IsVariableInitialized"})
"""Who asks that may not read a variable where it is told no."""

Sides: TypeAlias = tuple[tuple[str, bool], ...]
"""Predicates, and whether each is true."""


@dataclass(frozen=True)
class Branches:
    """What is to be made of a graph's branches.

    Attributes:
        predicates: tensors of branches that give way.
        sides: node -> the sides that it is on, of each of these branches that it is in.
        merges: Merge of such a branch -> (predicate, value if it is true, value if it is false).
        values: names of nodes whose value somebody reads, Merges among them.
    """

    predicates: frozenset[str]
    sides: Mapping[str, Sides]
    merges: Mapping[str, tuple[str, str, str]]
    values: Set[str]


def branches_of(graph: ImportedGraph, frames: Mapping[str, str], preserved: Set[str]) -> Branches:
    """Branches in which nothing but what a kernel of ours computes happens, and updates of whole variables, on one GPU;
    and not much for nothing.

    Args:
        frames: as control_contexts has them.
        preserved: names of nodes that must exist, and may be fetched.
    """
    contexts = control_contexts(graph, frames)
    merges, values = dict(_merges(graph, contexts)), _read_merges(graph) | preserved & graph.nodes.keys()
    members: dict[str, list[str]] = {}
    for name, context in contexts.items():
        for predicate in _predicates(context):
            members.setdefault(predicate, []).append(name)
    for name, (predicate, _, _) in merges.items():
        members.setdefault(predicate, []).append(name)
    if any(node.op in _MAY_FIND_NONE for node in graph.nodes.values()):
        members.clear()
    fit = {predicate for predicate, names in members.items()
           if _on_one_gpu([graph.nodes[n] for n in names])
           and all(_is_fit(graph, graph.nodes[n], contexts, merges, values) for n in names)}
    fit = {p for p in fit if _bytes_for_nothing(graph, p, members[p], contexts, merges, values) <= MOST_BYTES}
    while unfit := {p for p in fit if not _around(members[p], contexts) >= _inside(members[p], contexts) - fit}:
        fit -= unfit
    sides = {name: tuple((p, port == "1") for p, port in _sides(context) if p in fit)
             for name, context in contexts.items()}
    return Branches(frozenset(fit), {name: found for name, found in sides.items() if found},
                    {name: merge for name, merge in merges.items() if merge[0] in fit}, values)


def _sides(context: Context) -> list[tuple[str, object]]:
    """In an order that does not change from process to process."""
    return sorted((key.removeprefix(_BRANCH), port) for key, port in context if key.startswith(_BRANCH))


def _predicates(context: Context) -> set[str]:
    return {predicate for predicate, _ in _sides(context)}


def _inside(names: list[str], contexts: Mapping[str, Context]) -> set[str]:
    return set().union(*(_predicates(contexts[name]) for name in names))


def _around(names: list[str], contexts: Mapping[str, Context]) -> set[str]:
    return set.intersection(*(_predicates(contexts[name]) for name in names))


def _merges(graph: ImportedGraph, contexts: Mapping[str, Context]) -> Iterator[tuple[str, tuple[str, str, str]]]:
    for name, node in graph.nodes.items():
        if node.op not in MERGES or len(node.inputs) != 2:
            continue
        first, second = (dict(_sides(context_of(graph, contexts, tensor))) for tensor in node.inputs)
        parted = [p for p in first if {first[p], second.get(p)} == {"0", "1"}]
        if len(parted) == 1:
            true, false = node.inputs if first[parted[0]] == "1" else reversed(node.inputs)
            yield name, (parted[0], true, false)


def _on_one_gpu(nodes: list[ImportedNode]) -> bool:
    devices = {node.device for node in nodes if node.op not in _ANYWHERE}
    return len(devices) == 1 and device_type(devices.pop()) == "GPU"


def _read_merges(graph: ImportedGraph) -> frozenset[str]:
    read = {tensor.rpartition(":")[0] for node in graph.nodes.values() for tensor in node.inputs}
    return frozenset(name for name in read if graph.nodes[name].op in MERGES)


def _is_fit(graph: ImportedGraph, node: ImportedNode, contexts: Mapping[str, Context],
            merges: Mapping[str, tuple[str, str, str]], values: Set[str]) -> bool:
    """Whether a node may run where it would not have, or, of a Merge, choose between two values that are there."""
    if any(not key.startswith(_BRANCH) for key, _ in contexts[node.name]):  # in a loop
        return False
    if node.op in MERGES:
        return node.name in merges and (node.name not in values or _alike(graph, merges[node.name][1:]))
    if node.op in _PASS_ON:
        return True
    if node.writes:
        return (node.op in ASSIGNMENTS or node.op.startswith("ResourceApply")) and node.reason is None and all(
            value.type.is_static and value.type.shape == graph.variable_shapes.get(handle)
            for handle, value in node.writes.items())
    return node.reason is SHAPE_ARITHMETIC or (
        node.reason is None and not (node.library or node.checks or node.private)
        and (node.op == "ReadVariableOp" or not is_stateful(node.op)))


def _bytes_for_nothing(graph: ImportedGraph, predicate: str, names: list[str], contexts: Mapping[str, Context],
                       merges: Mapping[str, tuple[str, str, str]], values: Set[str]) -> int:
    """Of what is updated, and of values to choose from. What is done if a test holds of all elements, as of gradients
    that are finite, is expected."""
    expected = (predicate, "1") if graph.nodes[producer_of(predicate)].op == "All" else None
    made = [value for name in names if expected not in _sides(contexts[name])
            for value in graph.nodes[name].writes.values()]
    for name in names:
        if name in merges and merges[name][0] == predicate and name in values and expected is None:
            made += [value for tensor in merges[name][1:] if (value := graph.value(tensor)) is not None]
    return sum(value.type.nbytes for value in made)


def _alike(graph: ImportedGraph, tensors: tuple[str, ...]) -> bool:
    first, second = (graph.value(tensor) for tensor in tensors)
    return first is not None and second is not None and first.type == second.type and first.type.is_static
