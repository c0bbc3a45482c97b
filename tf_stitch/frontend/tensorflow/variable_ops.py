"""Ops whose result is the handle of a variable, whose type and shape they say."""

HELD_HANDLE = "StitchHandle"
"""In place of an argument of a function, which holds the variable (frontend/tensorflow/held_handles.py)."""
VARIABLES = ("VarHandleOp", HELD_HANDLE)
STANDING = frozenset({*VARIABLES, "Arg", "_Arg", "_DeviceArg", "Placeholder"})
"""Ops that TensorFlow counts among those with a state, and that give the same whenever they run in a step."""
