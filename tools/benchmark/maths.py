"""One way to write a subgraph's maths for every library that computes it: NumPy, CuPy, JAX, PyTorch, tensor IR.

Values of all of them understand + - * / among themselves and with Python numbers; what else is needed is a `Maths`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind

Unary = Callable[[Any], Any]
Reduction = Callable[[Any, int], Any]


@dataclass(frozen=True)
class Maths:
    """Functions of one library. Reductions take an axis and keep it with size 1.

    Attributes:
        one_hot: labels [n] and a number of classes give [n, classes] of zeros and ones.
    """

    exp: Unary
    log: Unary
    rsqrt: Unary
    sqrt: Unary
    erf: Unary
    sum: Reduction
    mean: Reduction
    max: Reduction
    one_hot: Callable[[Any, int], Any]


def array_maths(xp: Any, erf: Unary) -> Maths:
    """NumPy's or CuPy's, in the type of what comes in.

    Args:
        erf: theirs live in SciPy.
    """
    return Maths(
        exp=xp.exp, log=xp.log, rsqrt=lambda x: 1 / xp.sqrt(x), sqrt=xp.sqrt, erf=erf,
        sum=lambda x, axis: x.sum(axis, keepdims=True),
        mean=lambda x, axis: x.mean(axis, keepdims=True),
        max=lambda x, axis: x.max(axis, keepdims=True),
        one_hot=lambda labels, classes: (labels[:, None] == xp.arange(classes)).astype(xp.float64),
    )  # fmt: skip


def jax_maths(jax: Any) -> Maths:
    """JAX's."""
    jnp = jax.numpy
    return Maths(
        exp=jnp.exp, log=jnp.log, rsqrt=jax.lax.rsqrt, sqrt=jnp.sqrt, erf=jax.lax.erf,
        sum=lambda x, axis: x.sum(axis, keepdims=True),
        mean=lambda x, axis: x.mean(axis, keepdims=True),
        max=lambda x, axis: x.max(axis, keepdims=True),
        one_hot=jax.nn.one_hot,
    )  # fmt: skip


def torch_maths(torch: Any) -> Maths:
    """PyTorch's."""
    return Maths(
        exp=torch.exp, log=torch.log, rsqrt=torch.rsqrt, sqrt=torch.sqrt, erf=torch.erf,
        sum=lambda x, axis: x.sum(axis, keepdim=True),
        mean=lambda x, axis: x.mean(axis, keepdim=True),
        max=lambda x, axis: x.amax(axis, keepdim=True),
        one_hot=lambda labels, n: (labels[:, None] == torch.arange(n, device=labels.device)).to(torch.float32),
    )  # fmt: skip


class Traced:
    """A tensor IR node with arithmetic."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def __add__(self, other: Traced | float) -> Traced:
        return self._with(OpKind.ADD, other)

    def __sub__(self, other: Traced | float) -> Traced:
        return self._with(OpKind.SUB, other)

    def __mul__(self, other: Traced | float) -> Traced:
        return self._with(OpKind.MUL, other)

    def __truediv__(self, other: Traced | float) -> Traced:
        return self._with(OpKind.DIV, other)

    def _with(self, kind: OpKind, other: Traced | float) -> Traced:
        operand = other.node if isinstance(other, Traced) else _builder.scalar_like(other, self.node)
        return Traced(_builder.op(kind, self.node, operand))


_builder = Builder()


def _traced(kind: OpKind) -> Unary:
    return lambda x: Traced(_builder.op(kind, x.node))


def _traced_reduction(kind: OpKind) -> Reduction:
    return lambda x, axis: Traced(_builder.reduce(kind, x.node, [axis], keepdims=True))


def _traced_one_hot(labels: Traced, classes: int) -> Traced:
    [rows] = labels.node.type.shape
    column = _builder.iota((rows, classes), 1, labels.node.type.dtype)
    equal = _builder.op(OpKind.EQUAL, column, _builder.reshape(labels.node, (rows, 1)))
    return Traced(_builder.cast(equal, DType.F32))


IR_MATHS = Maths(
    exp=_traced(OpKind.EXP), log=_traced(OpKind.LOG), rsqrt=_traced(OpKind.RSQRT), sqrt=_traced(OpKind.SQRT),
    erf=_traced(OpKind.ERF), sum=_traced_reduction(OpKind.SUM),
    mean=lambda x, axis: Traced(_builder.mean(x.node, [axis], keepdims=True)),
    max=_traced_reduction(OpKind.MAX), one_hot=_traced_one_hot,
)  # fmt: skip
"""Builds tensor IR."""

ROOT_HALF = math.sqrt(0.5)
