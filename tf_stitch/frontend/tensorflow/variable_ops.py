"""Ops whose result is the handle of a variable, whose type and shape they say, and ops that update one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what reads reports needs no TensorFlow
    from tensorflow.core.framework.node_def_pb2 import NodeDef

HELD_HANDLE = "StitchHandle"
"""In place of an argument of a function, which holds the variable (frontend/tensorflow/held_handles.py)."""
VARIABLES = ("VarHandleOp", HELD_HANDLE)
STANDING = frozenset({*VARIABLES, "Arg", "_Arg", "_DeviceArg", "Placeholder"})
"""Ops that TensorFlow counts among those with a state, and that give the same whenever they run in a step."""


def writes_variables(node: NodeDef) -> bool:
    """Whether a node gives a new value to variables whose handles it reads."""
    return "Assign" in node.op or node.op.startswith(("ResourceApply", "ResourceScatter", "ResourceSparseApply"))
