"""Sums of very many terms on a GPU, where there is one: as exact as pairwise summation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential.gpu_run import run_gpu
from tests.lowering.test_bounded_sums import CHANGING, EXACT, allowed, compiled, graph_of, inputs, right
from tf_stitch.device.spec import H200
from tf_stitch.runtime.device_run import gpu_is_here

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_is_here(), reason="no GPU")]


@CHANGING
@pytest.mark.parametrize("function", ["mul", "pow"])
@pytest.mark.parametrize(("family", "n"), [(family, 300_007) for family in EXACT] + [
    ("all", 100_000_000), ("rows", 30_000_000), ("rows_and_elements", 30_000_000), ("columns", 20_000_000),
    ("columns_and_elements", 10_000_000), ("two_axes", 8_000_001), ("norms", 50_000_000)])
def test_sums_are_as_exact_as_pairwise_ones(family: str, n: int, function: str, changing: bool) -> None:
    graph = graph_of(family, n, function)
    values = inputs(graph)
    got = run_gpu(graph, compiled(family, n, function, changing, H200), values)
    for found, want in zip(got.values(), right(family, values["x:0"].astype("f8")), strict=True):
        np.testing.assert_allclose(found, want, rtol=allowed(n), atol=1e-300)


@CHANGING
@pytest.mark.parametrize("seed", range(3))
def test_random_terms(seed: int, changing: bool) -> None:
    """Of one sign."""
    n = 100_000_000
    graph = graph_of("all", n, "mul")
    values = inputs(graph)
    values["x:0"] = np.random.default_rng(seed).random(n, "f4")
    [found] = run_gpu(graph, compiled("all", n, "mul", changing, H200), values).values()
    want = values["x:0"].sum(dtype="f8")
    assert abs(float(found) - want) <= allowed(n) * want
