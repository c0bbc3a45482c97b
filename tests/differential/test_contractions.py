"""Regions with matmuls: library calls between kernels, reshapes as views, variables read by matmuls and updated."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import check_all, compiled, region
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.placement.executable import LibraryStep
from tf_stitch.placement.executable_format import StateMode

B, F32 = p.B, DType.F32


def attention(batch: int = 2, length: int = 4, heads: int = 2, size: int = 3) -> TensorGraph:
    """Self-attention with projections, as Keras' einsum layers make it."""
    width = heads * size
    x = B.input("x", F32, (batch, length, width))
    flat = B.reshape(x, (batch * length, width))

    def project(name: str) -> Node:
        w, bias = B.variable(f"w{name}", F32, (width, width)), B.variable(f"b{name}", F32, (width,))
        y = B.reshape(B.add(B.dot(flat, w), bias), (batch, length, heads, size))
        return B.transpose(y, [0, 2, 1, 3])

    q, k, v = (project(n) for n in "qkv")
    scores = p.softmax(B.mul(B.dot(q, k, False, True), p.const(size ** -0.5, q)))
    mixed = B.reshape(B.transpose(B.dot(scores, v), [0, 2, 1, 3]), (batch * length, width))
    out = B.reshape(B.dot(mixed, B.variable("wo", F32, (width, width))), (batch, length, width))
    return region("attention", [p.layernorm(B.add(out, x), B.input("g", F32, (width,)), B.input("h", F32, (width,)))])


def train_step(rows: int = 6, width: int = 4) -> TensorGraph:
    """Two dense layers, their gradients, plain gradient descent."""
    x, t = B.input("x", F32, (rows, width)), B.input("t", F32, (rows, width))
    w1, w2 = B.variable("w1", F32, (width, width)), B.variable("w2", F32, (width, width))
    hidden = B.op(OpKind.TANH, B.dot(x, w1))
    error = B.sub(B.dot(hidden, w2), t)
    back = B.mul(B.dot(error, w2, False, True), B.sub(p.const(1, hidden), B.square(hidden)))

    def step(w: Node, gradient: Node) -> Node:
        return B.sub(w, B.mul(gradient, p.const(0.1, w)))

    return region("train", [B.mean(B.square(error), [0, 1])],
                  {"w1": step(w1, B.dot(x, back, True)), "w2": step(w2, B.dot(hidden, error, True))})


X, Y = B.input("x", F32, (2, 3)), B.input("y", F32, (3, 4))
MATMUL = B.dot(X, Y)
TABLE, LARGE = np.linspace(-1, 1, 800).reshape(40, 20), B.input("l", F32, (40, 24))
GRAPHS = {
    "attention": attention(),
    "train_step": train_step(),
    "matmul_alone": region("one", [MATMUL]),
    "live_out_view": region("view", [B.reshape(MATMUL, (8,))]),
    "constant_operand": region("ones", [B.dot(B.input("long", F32, (24, 40)), B.constant(TABLE, F32))]),
    "constant_behind_a_view": region("ones", [B.dot(B.reshape(B.constant(TABLE, F32), (20, 40)), LARGE)]),
    "single_elements": region("one", [B.dot(B.reshape(B.exp(B.input("s", F32, ())), (1, 1)),
                                            B.input("r", F32, (1, 64)))]),
    "becomes_a_variable": region("new", [], {"v": B.dot(B.variable("v", F32, (2, 3)), B.input("w", F32, (3, 3)))}),
    "matmul_of_matmul": region("chain", [B.dot(B.reshape(MATMUL, (4, 2)), B.input("z", F32, (2, 5)))]),
    "view_live_out_too": region("moved", [view := B.reshape(B.transpose(B.exp(X), [1, 0]), (2, 3)),
                                           B.dot(view, Y)]),
    "both_views": region("both", [B.exp(B.reshape(MATMUL, (4, 2))), MATMUL, B.sum(MATMUL, [1])])}


@pytest.mark.parametrize("name", GRAPHS)
def test_every_level_agrees(name: str) -> None:
    check_all(GRAPHS[name], interpret_cpu=True, interpret_gpu=True)


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_variables_that_matmuls_read_are_updated_in_place(device: DeviceSpec) -> None:
    assert {mode for _, mode in compiled(train_step(), device).executable.state} == {StateMode.IN_PLACE}


def test_reshapes_beside_matmuls_move_nothing() -> None:
    first = B.dot(B.input("x", F32, (64, 64)), B.input("y", F32, (64, 64)))
    second = B.dot(B.reshape(first, (32, 128)), B.input("z", F32, (128, 32)))
    steps = compiled(region("chain", [second]), H200).executable.steps
    assert [type(s) for s in steps] == [LibraryStep, LibraryStep]


def test_attention_is_six_matmuls_and_few_kernels() -> None:
    result = compiled(attention(length=24, size=20), H200)
    assert len(result.calls) == 6
    assert len(result.executable.steps) - 6 <= 4, [k.schedule.text() for k in result.kernels]


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F64])
def test_other_types(dtype: DType) -> None:
    x, y = B.input("x", dtype, (5, 3)), B.input("y", dtype, (4, 3))
    check_all(region("typed", [B.exp(B.dot(x, y, False, True))]), interpret_gpu=True)




def test_a_small_matmul_beside_a_number_that_is_live_out() -> None:
    """The count of steps: any kernel may recompute it, and one has to store it."""
    count = B.add(B.variable("n", F32, ()), B.constant(1.0, F32))
    x, w = B.input("x", F32, (2, 8)), B.variable("w", F32, (8, 8))
    hidden = B.maximum(B.dot(x, w), p.const(0, x))
    gradient = B.dot(x, B.mul(hidden, B.broadcast(B.reshape(count, (1, 1)), (2, 8))), True)
    check_all(region("small", [B.mean(B.square(hidden), [0, 1])], {"n": count, "w": B.sub(w, gradient)}),
              interpret_cpu=True, interpret_gpu=True)


@pytest.mark.parametrize("kind", [OpKind.EXP, OpKind.TRANSPOSE])
@pytest.mark.parametrize("terms", [8, 64])
def test_a_matmul_reads_a_view_that_is_live_out(kind: OpKind, terms: int) -> None:
    """As a loop's results are pushed for its gradient: of few terms a kernel computes the matmul itself."""
    x = B.input("x", F32, (3, 2, terms))
    y = B.transpose(x, [1, 0, 2]) if kind is OpKind.TRANSPOSE else B.exp(x)
    flat = B.reshape(y, (6, terms))
    matmul = B.op(OpKind.TANH, B.dot(flat, B.input("w", F32, (terms, 20))))
    check_all(region("live_out_view", [matmul, flat]), interpret_cpu=True, interpret_gpu=True)
