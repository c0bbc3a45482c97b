"""Graphs of rows that hand many values from phase to phase."""

from __future__ import annotations

from tests.differential import patterns as p
from tests.differential.runner import region
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind as K

B = p.B


def chain(rows: int, cols: int, times: int) -> TensorGraph:
    """Softmaxes and layer normalisations of one row in turns: each value is alive in two phases."""
    h = B.input("x:0", DType.F32, (rows, cols))
    gamma, beta = (B.input(f"{n}:0", DType.F32, (cols,)) for n in ("gamma", "beta"))
    for _ in range(times):
        h = p.layernorm(p.softmax(h), gamma, beta)
    return region("chain", [h])


def staged_to_the_end(rows: int, cols: int, more: int = 0) -> TensorGraph:
    """Values that are all alive in the last phase: an exp, a tanh, which is measured to be cheaper, and a dearer
    chain; and so many sines."""
    x = B.input("x:0", DType.F32, (rows, cols))
    values = [B.exp(x), B.op(K.TANH, x), B.exp(B.op(K.TANH, B.exp(B.op(K.SIN, x))))]
    values += [B.op(K.SIN, B.mul(x, B.constant(i + 2.0, DType.F32))) for i in range(more)]
    total: Node | None = None
    for value in values:
        term = B.div(value, B.sum(B.mul(value, value), [1], True))
        total = term if total is None else B.add(total, term)
    assert total is not None
    return region("staged", [total])
