"""Runs a static tensor graph in NumPy: the reference of the differential tests, and the last fallback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import InputAttrs, VariableAttrs
from tf_stitch.ir.op_kinds import OpKind


def interpret(graph: TensorGraph, values: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Values of the graph's outputs.

    Args:
        graph: static types throughout.
        values: an array per input key and variable handle, of the node's dtype and shape.

    Returns:
        an array per output key, of the output's dtype and shape.
    """
    computed: dict[Node, NDArray[Any]] = {}
    with np.errstate(all="ignore"):
        for node in graph.nodes():
            computed[node] = _evaluate(node, computed, values)
    return {key: computed[node] for key, node in graph.outputs}


def _evaluate(node: Node, computed: Mapping[Node, NDArray[Any]], values: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    if isinstance(node.attrs, InputAttrs):
        return values[node.attrs.key]
    if isinstance(node.attrs, VariableAttrs):
        return values[node.attrs.handle]
    operands = [_as_compute(computed[o], o.type.dtype) for o in node.operands]
    if node.kind is OpKind.CAST:  # from the stored value: it is rounded already
        operands = [computed[node.operands[0]]]
    result = np.asarray(node.info.reference(node.attrs, *operands))
    return np.ascontiguousarray(result.astype(node.type.dtype.numpy)).reshape(node.type.dims)


def _as_compute(x: NDArray[Any], dtype: DType) -> NDArray[Any]:
    return x.astype(dtype.compute.numpy) if dtype.compute is not dtype else x
