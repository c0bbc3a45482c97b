"""The variance of a column in one pass."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential.runner import compiled, random_values, region, run_host
from tf_stitch.device.spec import CPU
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.interpreter import interpret
from tf_stitch.passes.fold_constants import FoldConstants
from tf_stitch.passes.single_pass_variance import SinglePassVariance

B, F32 = Builder(), DType.F32


@pytest.mark.parametrize("axes", [[0], [1]])
def test_deviations_from_the_mean_of_the_same_columns_are_summed_in_one_pass(axes: list[int]) -> None:
    """What is no mean of what is summed stays."""
    x = B.input("x:0", F32, (64, 64, 3))
    mean = B.broadcast(B.mean(x, [0], True), (64, 64, 3))
    graph = region("g", [B.sum(B.square(B.sub(x, mean)), axes)])
    result = SinglePassVariance().run(FoldConstants().run(graph).graph)
    assert result.modified == (axes == [0])
    values = random_values(graph)
    np.testing.assert_allclose(interpret(result.graph, values)["o0"], interpret(graph, values)["o0"], rtol=1e-4)


def test_a_mean_less_what_it_is_of_is_a_deviation_too() -> None:
    """TensorFlow's optimizer sorts the operands of SquaredDifference by name."""
    x = B.input("x:0", F32, (64, 3))
    graph = region("g", [B.sum(B.square(B.sub(B.mean(x, [0]), x)), [0])])
    result = SinglePassVariance().run(FoldConstants().run(graph).graph)
    assert result.modified
    values = random_values(graph)
    np.testing.assert_allclose(interpret(result.graph, values)["o0"], interpret(graph, values)["o0"], rtol=1e-4)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e8, 1e14, 1e16, 3e17, 1e19, 1e21, np.inf, np.nan])
def test_a_variance_in_one_pass_is_as_large_as_it_was(size: float) -> None:
    """Squares may be near the largest float, or beyond: then the variance is infinite, and NaN where a number was."""
    rows = 1024
    node = B.input("x:0", F32, (rows, 8))
    variance = B.sum(B.square(B.sub(node, B.mean(node, [0]))), [0])
    graph = region("g", [variance])
    assert SinglePassVariance().run(FoldConstants().run(graph).graph).modified
    x = np.random.default_rng(0).standard_normal((rows, 8)).astype(np.float32)
    if np.isfinite(size):
        x *= np.float32(size)
    else:
        x[5, :4] = size
    got = run_host(graph, compiled(graph, CPU), {"x:0": x})["o0"]
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        want = ((wide - wide.mean(0)) ** 2).sum(0).astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=1e-4)
