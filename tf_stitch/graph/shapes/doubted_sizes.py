"""Ops whose shape functions call sizes equal that are not.

TensorFlow's inference gives equal sizes one name. For some ops it is wrong: the padded rows and columns of SpaceToBatch
have one name where the paddings are no constants. `doubted_sizes.json` lists such ops with the reason. The command
`python -m tools.identities` finds them by running every op of TensorFlow with sizes that differ, and writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

TABLE = Path(__file__).with_name("doubted_sizes.json")


@cache
def doubted_ops() -> Mapping[str, str]:
    """Op -> why the names of its sizes are not believed."""
    found: Mapping[str, str] = json.loads(TABLE.read_text())["doubted"]
    return found


def doubted_nodes(graph_def: GraphDef) -> list[NodeDef]:
    """Nodes of such ops, and those that call functions with such ops."""
    functions = _doubted_functions(graph_def.library.function)
    return [node for node in graph_def.node if _is_doubted(node, functions)]


def _doubted_functions(library: Iterable[FunctionDef]) -> set[str]:
    found, left = set[str](), list(library)
    while new := {f.signature.name for f in left if any(_is_doubted(node, found) for node in f.node_def)}:
        found |= new
        left = [f for f in left if f.signature.name not in found]
    return found


def _is_doubted(node: NodeDef, functions: set[str]) -> bool:
    if node.op in doubted_ops() or node.op in functions:
        return True
    return bool(functions) and any(
        function.name in functions for attr in node.attr.values() for function in (attr.func, *attr.list.func))
