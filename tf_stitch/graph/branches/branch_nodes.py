"""Why a node of a branch may not run where it would not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple, TypeAlias

from tf_stitch.frontend.tensorflow.attributes import is_stateful
from tf_stitch.frontend.tensorflow.control_flow import MERGES
from tf_stitch.frontend.tensorflow.imported_graph import ImportedGraph, ImportedNode, producer_of
from tf_stitch.frontend.tensorflow.importer import SHAPE_ARITHMETIC, device_type
from tf_stitch.frontend.tensorflow.matmul_scope import multiplications
from tf_stitch.ir.types import Symbol

ASSIGNMENTS = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})
_ANYWHERE = frozenset({"Const", "NoOp"})
_PASS_ON = _ANYWHERE | {"Identity", "Switch"}
_OF_ANY_SHAPE = frozenset({"Shape", "ShapeN", "Size", "Rank"})

_UNKNOWN = 1 << 62

Merges: TypeAlias = Mapping[str, tuple[str, str, str]]
"""Merge of two sides of one branch -> (predicate, value if it is true, value if it is false)."""


class ForNothing(NamedTuple):
    """What a branch may do for nothing at most, where both of its sides are computed.

    Attributes:
        nbytes: of variables and values.
        multiplications: of matmuls.
    """

    nbytes: int
    multiplications: int


def why_not_for_nothing(graph: ImportedGraph, node: ImportedNode, merges: Merges, values: Set[str],
                        preserved: Set[str], new: Set[str], multiplications: int) -> str | None:
    """Why a node may not run where it would not have, or, of a Merge, choose between two values that are there; None
    if it may.

    Args:
        values: names of nodes whose value somebody reads.
        preserved: names of nodes that may be fetched.
        new: handles of variables that may have no value yet.
        multiplications: of a matmul, at most.
    """
    name = node.name
    if node.op in MERGES:
        if name not in merges:
            return f"{name} is not the Merge of two sides of one branch"
        alike = name not in values or _alike(graph, merges[name][1:])
        return None if alike else f"{name} merges values of different types, or of sizes that only a run tells"
    if name in preserved and (node.outputs or node.op == "Identity") and f"{name}:0" not in graph.handles:
        return f"{name} may be fetched"
    if node.op in _PASS_ON:
        return None
    if node.writes:
        return _why_no_update(graph, node, new)
    if node.reason is not None and node.reason is not SHAPE_ARITHMETIC:
        return f"{name}: {node.reason}"
    if is_stateful(node.op) and node.op != "ReadVariableOp":
        return f"{name}: {node.op} has side effects"
    if node.library and (count := multiplications_of(graph, node)) > multiplications:
        return f"{name}: {node.op} is a library call" + (f" of {count:,} multiplications" if count < _UNKNOWN else "")
    if node.checks or node.private:
        return f"{name}: {node.op} may fail"
    if node.op not in _OF_ANY_SHAPE and not _of_known_sizes(graph, node):
        return f"{name}: its sizes may be right on this side alone, and only a run tells them"
    return None


def multiplications_of(graph: ImportedGraph, node: ImportedNode) -> int:
    """Multiplications of a library call that is a matmul; for another call, more than any matmul has."""
    values = [value for value in node.outputs if value is not None]
    count = multiplications(values, {v for t in node.inputs if (v := graph.value(t)) is not None})
    return _UNKNOWN if count is None or not values else count


def maybe_new(graph: ImportedGraph) -> frozenset[str]:
    """Handles of variables that the graph itself holds, and assigns but never reads."""
    assigned = {handle for node in graph.nodes.values() for handle in node.writes}
    read = {handle for node in graph.nodes.values() if node.op != "AssignVariableOp"
            for handle in (*node.reads, *node.writes)}
    return frozenset(h for h in assigned - read if graph.nodes[producer_of(h)].op == "VarHandleOp")


def why_not_on_one_gpu(nodes: Sequence[ImportedNode]) -> str | None:
    """Why nodes are not all on one GPU; None if they are."""
    devices = {node.device: node.name for node in nodes if node.op not in _ANYWHERE}
    if len(devices) == 1 and device_type(next(iter(devices))) == "GPU":
        return None
    places = sorted(f"{name} on {device or 'any device'}" for device, name in devices.items())
    return f"its nodes are not on one GPU: {', '.join(places[:2])}" if places else "it holds nothing but constants"


def _why_no_update(graph: ImportedGraph, node: ImportedNode, new: Set[str]) -> str | None:
    if node.reason is not None:
        return f"{node.name}: {node.reason}"
    if node.op not in ASSIGNMENTS and not node.op.startswith("ResourceApply"):
        return f"{node.name}: {node.op} updates a part of a variable"
    if not all(value.type.is_static and value.type.shape == graph.variable_shapes.get(handle)
               for handle, value in node.writes.items()):
        return f"{node.name} updates a variable whose shape is not known"
    return f"{node.name} may be the first to give its variable a value" if new & node.writes.keys() else None


def _alike(graph: ImportedGraph, tensors: tuple[str, ...]) -> bool:
    first, second = (graph.value(tensor) for tensor in tensors)
    return first is not None and second is not None and first.type == second.type and first.type.is_static


def _of_known_sizes(graph: ImportedGraph, node: ImportedNode) -> bool:
    """Whether all shapes, and all sizes as values, are numbers. Of others TensorFlow, or we, conclude from an op what
    they are, as that two are equal: where its side is not taken that may not hold."""
    values = [*map(graph.value, node.inputs), *node.outputs]
    known = [graph.statics[t] for t in node.inputs if t in graph.statics]
    return all(value is None or value.type.is_static for value in values) and not any(
        isinstance(size, Symbol) for sizes in known for size in sizes.flat)
