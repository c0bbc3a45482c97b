"""Which function of one number element-wise ops are, found by its values, for there are many ways to write one."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, make_node
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import ConstantAttrs
from tf_stitch.ir.op_kinds import Category, OpKind


class Activation(IntEnum):
    """Functions that libraries apply to a matmul, or a convolution."""

    NONE = 0
    RELU = 1
    GELU = 2
    """By tanh. The exact one, by erf, differs by up to 5e-4."""


Function: TypeAlias = Callable[[NDArray[Any]], Any]
FUNCTIONS: dict[Activation, Function] = {
    Activation.RELU: lambda x: np.maximum(x, 0),
    Activation.GELU: lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))}

_SAMPLES = np.concatenate([np.linspace(-8, 8, 257), [-100.0, -30.0, 30.0, 100.0]])
_MOST_NODES = 16
_TOLERANCE = {DType.F32: 1e-6, DType.F16: 2e-4, DType.BF16: 2e-4}
"""Constants are rounded to the element type; all else is computed in float64."""


def activation_of(value: Node, users: dict[Node, list[Node]], wanted: frozenset[Node],
                  known: Collection[Activation] = tuple(FUNCTIONS)) -> tuple[Activation, tuple[Node, ...]] | None:
    """The activation that is all that becomes of `value`, with the nodes that compute it, its result last; or None.

    Args:
        users: of every node.
        wanted: nodes whose values are needed by themselves.
        known: the activations in question.
    """
    if value.type.dtype not in _TOLERANCE:
        return None
    inside = [value]
    while len(inside) <= _MOST_NODES:
        following = next((u for n in inside for u in users.get(n, ()) if u not in inside and _is_function(u, inside)),
                         None)
        if following is None or inside[-1] in wanted:
            return None
        inside.append(following)
        if all(u in inside for n in inside[:-1] for u in users.get(n, ())) and following.type == value.type:
            found = _function(inside, known)
            if found is not None:
                return found, tuple(inside[1:])
    return None


def _is_function(node: Node, inside: Sequence[Node]) -> bool:
    return node.category is Category.ELEMENTWISE and (node.type.dtype.is_float or node.type.dtype is DType.BOOL) \
        and all(o in inside or (o.kind is OpKind.CONSTANT and o.type.numel == 1) for o in node.operands)


def _function(nodes: Sequence[Node], known: Collection[Activation]) -> Activation | None:
    """Which of them the last of `nodes` is as a function of the first."""
    b = Builder()
    new: dict[Node, Node] = {nodes[0]: b.input("x", DType.F64, _SAMPLES.shape)}
    for node in nodes[1:]:
        operands = [new[o] if o in new else _constant(b, o) for o in node.operands]
        new[node] = b.cast(operands[0], _wide(node.type.dtype)) if node.kind is OpKind.CAST else \
            make_node(node.kind, operands, node.attrs)
    values = interpret(TensorGraph("", [("y", new[nodes[-1]])]), {"x": _SAMPLES})["y"]
    tolerance = _TOLERANCE[nodes[0].type.dtype]
    return next((a for a in known
                 if np.allclose(values, FUNCTIONS[a](_SAMPLES), rtol=tolerance, atol=tolerance)), None)


def _constant(b: Builder, node: Node) -> Node:
    assert isinstance(node.attrs, ConstantAttrs)
    return b.constant(node.attrs.value.reshape(()), _wide(node.type.dtype))


def _wide(dtype: DType) -> DType:
    return DType.F64 if dtype.is_float else dtype
