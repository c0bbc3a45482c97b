"""Activations are known by their values, however they are written."""

from __future__ import annotations

import math

import pytest

from tf_stitch.ir.activations import Activation, activation_of
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.op_kinds import OpKind

B = Builder()


def const(value: float, x: Node) -> Node:
    return B.scalar_like(value, x)


def gelu(x: Node, cubic: float = 0.044715) -> Node:
    """As tf.nn.gelu(approximate=True) writes it."""
    cube = B.op(OpKind.POW, x, const(3, x))
    inner = B.mul(const(math.sqrt(2 / math.pi), x), B.add(x, B.mul(const(cubic, x), cube)))
    return B.mul(B.mul(const(0.5, x), x), B.add(const(1, x), B.op(OpKind.TANH, inner)))


def gelu_by_squares(x: Node) -> Node:
    inner = B.mul(x, B.add(const(0.7978845608, x), B.mul(const(0.0356774081, x), B.square(x))))
    return B.mul(x, B.add(const(0.5, x), B.mul(const(0.5, x), B.op(OpKind.TANH, inner))))


def exact_gelu(x: Node) -> Node:
    return B.mul(B.mul(const(0.5, x), x), B.op(OpKind.ERFC, B.mul(x, const(-math.sqrt(0.5), x))))


def relu(x: Node) -> Node:
    return B.maximum(x, const(0, x))


def relu_by_select(x: Node) -> Node:
    return B.select(B.op(OpKind.GREATER, x, const(0, x)), x, const(0, x))


def relu_by_mask(x: Node) -> Node:
    return B.mul(x, B.cast(B.op(OpKind.GREATER, x, const(0, x)), x.type.dtype))


def activation(y: Node, x: Node, *others: Node) -> Activation | None:
    graph = TensorGraph("f", [(f"o{i}", n) for i, n in enumerate((y, *others))])
    found = activation_of(x, users_of(graph.nodes()), frozenset((y, *others)))
    assert found is None or found[1][-1] is y or y not in found[1]
    return None if found is None else found[0]


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_forms(dtype: DType) -> None:
    x = B.input("x", dtype, (4, 8))
    assert activation(gelu(x), x) is Activation.GELU
    assert activation(gelu_by_squares(x), x) is Activation.GELU
    for form in (relu, relu_by_select, relu_by_mask):
        assert activation(form(x), x) is Activation.RELU


def test_what_is_none_of_them() -> None:
    x = B.input("x", DType.F32, (4, 8))
    assert activation(exact_gelu(x), x) is None
    assert activation(gelu(x, 0.0448), x) is None
    assert activation(B.maximum(x, const(0.01, x)), x) is None
    assert activation(B.op(OpKind.TANH, x), x) is None
    assert activation(B.maximum(x, B.input("y", DType.F32, (4, 8))), x) is None


def test_nothing_else_may_need_what_is_inside() -> None:
    x = B.input("x", DType.F32, (4, 8))
    assert activation(relu(x), x, B.exp(x)) is None  # the value itself has another user
    inner = B.op(OpKind.POW, x, const(3, x))
    assert activation(gelu(x), x, inner) is None
    assert activation(relu(x), x, x) is None


def test_it_ends_where_the_function_is_found() -> None:
    x = B.input("x", DType.F32, (4, 8))
    y = relu(x)
    found = activation_of(x, users_of([x, *TensorGraph("g", [("o", B.exp(y))]).nodes()[1:]]), frozenset())
    assert found == (Activation.RELU, (y,))
