"""The ops that TensorFlow registers."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework.op_def_pb2 import OpDef, OpList
from tensorflow.python.client import pywrap_tf_session


def registered() -> dict[str, OpDef]:
    """By name, in order."""
    ops = OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    return {op.name: op for op in sorted(ops.op, key=lambda op: op.name)}


def version() -> str:
    return str(tf.__version__)
