"""What a region is called with."""

from __future__ import annotations

from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_attrs import AssignAttrs, InputAttrs, VariableAttrs


def arguments_of(graph: TensorGraph) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keys of a region's inputs, and handles of its variables, also of those that it only writes."""
    nodes = [node.attrs for node in [*graph.inputs(), *(node for _, node in graph.outputs)]]
    inputs = (attrs.key for attrs in nodes if isinstance(attrs, InputAttrs))
    handles = (attrs.handle for attrs in nodes if isinstance(attrs, VariableAttrs | AssignAttrs))
    return tuple(dict.fromkeys(inputs)), tuple(dict.fromkeys(handles))
