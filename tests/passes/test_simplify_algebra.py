"""Divisions by sums of exponentials, and small powers, become multiplications; others stay."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential.runner import compiled, region, run_host
from tests.passes.kinds import kinds
from tf_stitch.device.spec import CPU
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.passes.simplify_algebra import SimplifyAlgebra

B, F32 = Builder(), DType.F32


def test_a_softmax_multiplies_by_a_reciprocal() -> None:
    x = B.input("x:0", F32, (64, 256))
    e = B.exp(B.sub(x, B.reduce(OpKind.MAX, x, [1], True)))
    assert kinds(SimplifyAlgebra(), B.div(e, B.sum(e, [1], True)))[-2:] == ["reciprocal", "mul"]


def test_other_divisions_stay() -> None:
    x = B.input("x:0", F32, (64, 256))
    most, e = B.reduce(OpKind.MAX, x, [1], True), B.exp(x)
    for y in (most, B.sum(x, [1], True), B.sum(e, [1], True), B.input("y:0", F32, (256,))):
        assert kinds(SimplifyAlgebra(), B.div(x, y))[-1] == "div"
    shifted = B.exp(B.sub(x, B.reduce(OpKind.MAX, x, [0], True)))
    assert kinds(SimplifyAlgebra(), B.div(shifted, B.sum(shifted, [1], True)))[-1] == "div", "the maximum of others"


def test_the_largest_by_itself_is_one() -> None:
    x = np.random.default_rng(0).random((64, 256)).astype(np.float32)
    x *= np.logspace(-37, 38, 64, dtype=np.float32)[:, None]
    node = B.input("x:0", F32, x.shape)
    graph = region("g", [B.div(node, B.reduce(OpKind.MAX, node, [1], True))])
    got = run_host(graph, compiled(graph, CPU), {"x:0": x})["o0"]
    np.testing.assert_array_equal(got, x / x.max(1, keepdims=True))


@pytest.mark.parametrize("dtype", [F32, DType.F64, DType.BF16, DType.F16])
@pytest.mark.parametrize("exponent", [2, 3, 4])
def test_small_powers_are_multiplied_out(exponent: int, dtype: DType) -> None:
    """With what pow has for infinities, zeros of both signs and what is not a number."""
    x = B.input("x:0", dtype, (7,))
    power = B.op(OpKind.POW, x, B.broadcast(B.constant(np.array(exponent), dtype), (7,)))
    assert set(kinds(SimplifyAlgebra(), power)) == {"mul"}
    given = np.array([-np.inf, -3, -0.0, 0, 1.5, np.inf, np.nan]).astype(dtype.numpy)
    graph = region("g", [power])
    got = run_host(graph, compiled(graph, CPU), {"x:0": given})["o0"]
    with np.errstate(all="ignore"):
        wanted = np.power(given.astype(np.float64), exponent)
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=2e-2 if dtype in (DType.BF16, DType.F16) else 1e-6)
    np.testing.assert_array_equal(np.signbit(got[:-1].astype(np.float64)), np.signbit(wanted[:-1]))


def test_other_powers_stay() -> None:
    x = B.input("x:0", F32, (2,))
    for exponent in ([0.5, 0.5], [-1.0, -1.0], [3.5, 3.5], [2.0, 3.0], [5.0, 5.0]):
        assert kinds(SimplifyAlgebra(), B.op(OpKind.POW, x, B.constant(np.array(exponent), F32)))[-1] == "pow"
    assert kinds(SimplifyAlgebra(), B.op(OpKind.POW, x, B.input("y:0", F32, (2,))))[-1] == "pow"
    number = B.broadcast(B.input("z:0", F32, ()), (2,))
    assert kinds(SimplifyAlgebra(), B.op(OpKind.POW, number, B.constant(np.full(2, 2.0), F32)))[-1] == "mul"
