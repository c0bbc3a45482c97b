"""Which functions' first calls may run TensorFlow's own graph."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.eager.context import Context
from tensorflow.python.framework import op_def_registry
from tensorflow.python.framework.config import is_op_determinism_enabled

from tf_stitch.frontend.tensorflow.control_flow import WHILES
from tf_stitch.plugin.function_definition import FunctionDefinition
from tf_stitch.plugin.loop_length import is_short

MOST_BYTES = 64 * 2**20
"""Of a function that has two instances: each holds all of its constants."""
_STATE_ELSEWHERE = ("Assert", "Assign", "Case", "CheckNumerics", "Empty", "If", "Iterator", "LookupTable", "NoOp",
                    "OptionalFromValue", "OptionalGetValue", "PartitionedCall", "Print", "ReadVariableOp", "Resource",
                    "Rng", "Stateful", "StitchHandle", "VarHandleOp", "VarIsInitializedOp", "VariableShape",
                    "WriteSummary")
"""Beginnings of ops with a state that is not the kernel's: two instances of such a function share it."""
LOOPS = ("For", "LoopCond", "ReduceDataset")


def may_wait(ctx: Context, name: bytes) -> FunctionDefinition | None:
    """What a function is; None if it is to be stitched in its first call.

    That is one of which two instances, one after the other, do not compute what one does, or take much memory. And one
    that has a loop without a known trip count: its first call may be its only one, and run for hours.
    """
    if ctx.device_name or ctx.is_async() or is_op_determinism_enabled():
        return None
    try:
        definition = FunctionDefinition(ctx, name)
    except tf.errors.NotFoundError:  # of a function that it calls
        return None
    if definition.functions[0].attr["_XlaMustCompile"].b or definition.size > MOST_BYTES:
        return None
    named = {function.signature.name: function for function in definition.functions}

    def may(node: NodeDef, caller: FunctionDef) -> bool:
        if node.op in WHILES:
            return is_short(node, caller, named)
        return node.op in named or (node.op not in LOOPS and keeps_no_state(node))

    waits = all(may(node, function) for function in definition.functions for node in function.node_def)
    return definition if waits else None


def keeps_no_state(node: NodeDef) -> bool:
    """Whether two kernels of a node do what one does: its state is elsewhere, or it has none that could be foreseen."""
    op = op_def_registry.get(node.op)
    if op is None:
        return False
    if not op.is_stateful or node.op.startswith(_STATE_ELSEWHERE):
        return True
    seeds = [node.attr[key].i for key in ("seed", "seed2") if key in node.attr]
    return len(seeds) == 2 and not any(seeds)  # random numbers that nobody can foresee
