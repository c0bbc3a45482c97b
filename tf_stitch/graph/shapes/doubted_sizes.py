"""Ops whose shape functions are wrong about sizes.

TensorFlow's inference gives equal sizes one name. For some ops it gives one to sizes that differ: the padded rows and
columns of SpaceToBatch have one name where the paddings are no constants. For others it computes with a size that it
does not know as if it was -1: an off-diagonal of unknown length makes a matrix of 0 rows. `doubted_sizes.json` lists
both, with the reason, and ops of which no call could be run. The command `python -m tools.identities` finds them by
running every op of TensorFlow with sizes that differ, and writes the file. SplitV is wrong only where its axis is no
constant, as SpaceToBatch for its paddings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Set
from functools import cache
from pathlib import Path
from typing import Any

from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

TABLE = Path(__file__).with_name("doubted_sizes.json")


@cache
def doubted_ops() -> Mapping[str, str]:
    """Op -> why the names of its sizes are not believed."""
    found: Mapping[str, str] = _table("doubted")
    return found


@cache
def miscounted_ops() -> Mapping[str, str]:
    """Op -> why the numbers of its results' sizes are not believed where not all that they depend on is known."""
    found: Mapping[str, str] = _table("miscounted")
    return found


@cache
def doubted_for_integers() -> Set[str]:
    """Ops of both kinds that are wrong only where an integer that they read, as an axis, is no constant."""
    return frozenset(_table("of open integers"))


@cache
def doubted_for_pairs() -> Set[str]:
    """Ops that are right where the first and last sizes of their first two operands are equal, as a gradient's and its
    image's."""
    return frozenset(_table("of pairs"))


@cache
def always_miscounted() -> Set[str]:
    """Ops whose numbers are wrong even where all is known that their results' sizes depend on."""
    return frozenset(_table("of known sizes"))


def _table(part: str) -> Any:
    return json.loads(TABLE.read_text())[part]


def doubted_nodes(graph_def: GraphDef) -> list[NodeDef]:
    """Nodes of ops of either kind, and those that call functions with such ops."""
    return _nodes_of(graph_def, doubted_ops().keys() | miscounted_ops().keys())


def miscounted_nodes(graph_def: GraphDef) -> list[NodeDef]:
    """Nodes of ops whose numbers are not believed, and those that call functions with such ops."""
    return _nodes_of(graph_def, miscounted_ops().keys())


def _nodes_of(graph_def: GraphDef, ops: Set[str]) -> list[NodeDef]:
    functions = _functions_with(graph_def.library.function, ops)
    return [node for node in graph_def.node if _is_one(node, ops, functions)]


def _functions_with(library: Iterable[FunctionDef], ops: Set[str]) -> set[str]:
    found, left = set[str](), list(library)
    while new := {f.signature.name for f in left if any(_is_one(node, ops, found) for node in f.node_def)}:
        found |= new
        left = [f for f in left if f.signature.name not in found]
    return found


def _is_one(node: NodeDef, ops: Set[str], functions: Set[str]) -> bool:
    if node.op in ops or node.op in functions:
        return True
    return bool(functions) and any(
        function.name in functions for attr in node.attr.values() for function in (attr.func, *attr.list.func))
