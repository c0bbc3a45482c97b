"""Outputs of a node, one by one, by the definition of its op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.op_def_pb2 import OpDef
from tensorflow.python.framework import op_def_registry

from tf_stitch.errors import SourceLoc, UnsupportedError


@dataclass(frozen=True)
class Output:
    """One output.

    Attributes:
        name: as functions name it, "(output argument):(number within it)".
        dtype: its tensorflow.DataType.
    """

    name: str
    dtype: int


def op_outputs(node: NodeDef, op_def: OpDef | None = None) -> list[Output]:
    """All outputs of a node.

    Args:
        op_def: of its op; None: the registered one.

    Raises:
        UnsupportedError: TensorFlow does not know the op.
    """
    op = op_def or op_def_registry.get(node.op)
    if op is None:
        raise UnsupportedError("TensorFlow does not know this op", SourceLoc(node.name, node.op))
    defaults = {attr.name: attr.default_value for attr in op.attr}

    def attr(name: str) -> Any:
        return node.attr[name] if name in node.attr else defaults.get(name)

    found: list[Output] = []
    for output in op.output_arg:
        if output.type_list_attr:
            dtypes = list(attr(output.type_list_attr).list.type)
        else:
            dtype = attr(output.type_attr).type if output.type_attr else output.type
            dtypes = [dtype] * (attr(output.number_attr).i if output.number_attr else 1)
        found += [Output(f"{output.name}:{i}", dtype) for i, dtype in enumerate(dtypes)]
    return found
