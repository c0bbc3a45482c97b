"""A division by a sum of exponentials becomes a product, others stay."""

from __future__ import annotations

import numpy as np

from tests.differential.runner import compiled, region, run_host
from tests.transforms.kinds import kinds
from tf_stitch.device.spec import CPU
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.transforms.simplify_algebra import SimplifyAlgebra

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
