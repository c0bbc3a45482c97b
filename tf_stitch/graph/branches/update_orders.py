"""Updates of variables that a graph leaves in no order."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.frontend.tensorflow.control_context import Context
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, ImportedNode, producer_of
from tf_stitch.graph.branches.branch_nodes import ASSIGNMENTS
from tf_stitch.graph.finish.reach import Reach

_HAND_ON = frozenset({"Identity", "Switch", "Enter", "Snapshot"})


def touching(graph: ImportedGraph) -> dict[str, list[str]]:
    """Variable's handle -> names of nodes that read or update it, or may, in the graph's order."""
    found: dict[str, list[str]] = {}
    for node in graph.nodes.values():
        taken = [h for t in node.inputs if (h := graph.handles.get(t, t)) in graph.variable_shapes
                 ] if node.op not in _HAND_ON else []
        for handle in dict.fromkeys((*node.reads, *node.writes, *taken)):
            found.setdefault(handle, []).append(node.name)
    return found


def is_read(node: ImportedNode) -> bool:
    """Whether a node that touches a variable only reads it."""
    return node.op == "ReadVariableOp"


def earlier_accesses(graph: ImportedGraph, graph_def: GraphDef) -> dict[str, list[str]]:
    """Node that reads or updates a variable -> those of its accesses that come before it, where one of the two updates.
    Of these the last: the others come before one of them. Behind a loop these may be in it; in a loop, they are those
    of the same trip, or from outside.

    Args:
        graph_def: what the graph was imported from.
    """
    writes = {name for name, node in graph.nodes.items() if not is_read(node)}
    touched = [names for names in touching(graph).values() if len(names) > 1 and writes & set(names)]
    reach = Reach.of(graph_def, _places({n for names in touched for n in names}))
    found: dict[str, dict[str, None]] = {}
    for names in touched:
        every, updates = (functools.reduce(operator.or_, (reach.own[n] for n in some), 0)
                          for some in (names, writes.intersection(names)))
        masks = {name: (reach.once if reach.runs_again(name) else reach.ever)[name] for name in names}
        matter = {name: masks[name] & (every if name in writes else updates) for name in names}
        for name in names:
            earlier = [n for n in names if matter[name] & reach.own[n]]
            covered = functools.reduce(operator.or_, (matter[n] for n in earlier), 0)
            found.setdefault(name, {}).update(dict.fromkeys(n for n in earlier if not covered & reach.own[n]))
    return {name: list(last) for name, last in found.items() if last}


@dataclass(frozen=True)
class _Before:
    """Which of some nodes come before each node, as bits."""

    place: Mapping[str, int]
    masks: Mapping[str, int]

    def has(self, one: str, other: str) -> bool:
        """Whether `one` comes before `other`."""
        return bool(self.masks[other] & self.place[one])


def _accesses_before(graph: ImportedGraph, names: Set[str]) -> _Before:
    place = _places(names)
    masks: dict[str, int] = {}
    for name, node in graph.nodes.items():
        mask = 0
        for other in (*map(producer_of, node.inputs), *node.control_inputs):
            mask |= masks.get(other, 0) | place.get(other, 0)
        masks[name] = mask
    return _Before(place, masks)


def _places(names: Set[str]) -> dict[str, int]:
    """A bit for each name."""
    return {name: 1 << i for i, name in enumerate(sorted(names))}


def unordered_updates(graph: ImportedGraph, contexts: Mapping[str, Context]) -> Iterator[tuple[str, str]]:
    """Updates on a side of a branch, each with a node that touches the variable neither before it nor after it, and may
    run in the same step. TensorFlow's update is one action, and none where its side is not taken; one that puts back
    what the variable had would undo another. (A read beside one that assigns finds what the variable has, or will.)
    """
    touched = {handle: names for handle, names in touching(graph).items()
               if len(names) > 1 and any(contexts[n] and graph.nodes[n].writes for n in names)}
    before = _accesses_before(graph, {n for names in touched.values() for n in names})
    for names in touched.values():
        for update in (n for n in names if contexts[n] and graph.nodes[n].writes):
            for other in names:
                if other == update or before.has(other, update) or before.has(update, other):
                    continue
                harmless = is_read(graph.nodes[other]) and graph.nodes[update].op in ASSIGNMENTS
                if not harmless and not _exclude(contexts[update], contexts[other]):
                    yield update, other


def _exclude(one: Context, other: Context) -> bool:
    """Whether two nodes never run both: they are on two sides of a branch."""
    sides = dict(one)
    return any(key in sides and sides[key] != port for key, port in other)
