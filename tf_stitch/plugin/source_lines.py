"""Where in the user's program the nodes of a graph were made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.eager import context
from tensorflow.python.framework import error_interpolation
from tensorflow.python.util import tf_stack

from tf_stitch.graph.origin import origin

_Stack = Sequence[Any]


def source_lines(nodes: Iterable[NodeDef], graph_id: str) -> dict[str, str]:
    """Node -> "file:line" of the user's, for nodes whose stack TensorFlow knows. It knows none in sessions, and none of
    ops of a gradient, which are made where the gradient is asked for.

    Args:
        graph_id: the name of the function.
    """
    stacks: dict[str, Mapping[str, _Stack]] = {}
    found = {}
    for node in nodes:
        name, function = origin(node)
        function = function or graph_id
        if function not in stacks:
            stacks[function] = _stacks(function)
        stack = stacks[function].get(name)
        frame = _users_frame(stack) if stack else None
        if frame is not None:
            found[node.name] = f"{frame.filename}:{frame.lineno}"
    return found


def _stacks(function: str) -> Mapping[str, _Stack]:
    try:
        stacks: Mapping[str, _Stack] = tf_stack.LoadTracesFromDebugInfo(
            context.context().get_graph_debug_info(function))
    except (tf.errors.OpError, AttributeError):  # no function of the program's; AttributeError: none of this is public
        return {}
    return stacks


def _users_frame(stack: _Stack) -> Any:
    """The innermost outside of TensorFlow and Keras, as TensorFlow's own errors choose it; None: all is theirs."""
    return next((frame for frame in reversed(stack) if not _is_framework(frame.filename)), None)


def _is_framework(file: str) -> bool:
    """TensorFlow itself knows Keras only in the site-packages of the interpreter that runs."""
    return bool(error_interpolation._is_framework_filename(file)) or "/keras/src/" in file or "/tf_keras/" in file
