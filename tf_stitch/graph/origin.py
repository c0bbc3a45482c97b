"""Which nodes of the user's one of ours stands for, as TensorFlow's debug information: its errors find files and lines
by it."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow.core.framework.node_def_pb2 import NodeDef

_FIRST = 3
"""Nodes that are named, besides the last: each makes a stack of calls in the message of an error."""


def set_origin(node: NodeDef, replaced: Sequence[NodeDef]) -> None:
    """Lets errors of `node` name the first and the last of the nodes that it replaces.

    TensorFlow goes down from function to function, and knows the nodes of the last one alone: so all are of the same
    function as the first.
    """
    origins = [origin(one) for one in replaced]
    of_one = [name for name, function in origins if function == origins[0][1]]
    shown = dict.fromkeys([*of_one[:_FIRST], *of_one[-1:]])
    info = node.experimental_debug_info
    info.original_node_names.extend(shown)
    if origins and origins[0][1]:
        info.original_func_names.extend([origins[0][1]] * len(shown))


def origin(node: NodeDef) -> tuple[str, str]:
    """What a node was called where the user's program made it, and in which function; "": the graph's own."""
    info = node.experimental_debug_info
    names, functions = info.original_node_names, info.original_func_names
    return names[0] if names else node.name, functions[0] if functions else ""
