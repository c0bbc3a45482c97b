"""Rows that the blocks of a cluster share, on a GPU that has clusters: by template, and where the rules choose them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.test_packing import UNLIKE, scaled, unlike
from tests.differential import patterns as p
from tests.differential.gpu_run import run_gpu
from tests.differential.runner import compare, compiled, random_values, reference, region
from tests.families.row.test_cross_block_reduction import CASES, clustered, layernorm, less_its_maximum, x
from tests.planning.test_matmul_choice import gated, recurrent
from tests.support.numbers import set_numbers
from tf_stitch.device.spec import H200
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.runtime.device_run import gpu_is_here

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_is_here(), reason="no GPU")]


def check(output: Node, tiling: str, keep: str = "", runs: int = 5) -> None:
    """Every run writes into poisoned memory between red zones."""
    graph = region("rows", [output])
    built = clustered(graph, tiling, keep)
    assert all(kernel.schedule.mapping.cluster for kernel in built.kernels)
    values = random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_gpu(graph, built, values, runs=runs), want, allowed, tiling)


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_in_the_interpreter(name: str) -> None:
    output, tiling, keep = CASES[name]
    check(output(), tiling, keep)


@pytest.mark.parametrize("blocks", [2, 4, 8])
@pytest.mark.parametrize("rows", [1, 64, 3000])
def test_any_number_of_rows(rows: int, blocks: int) -> None:
    """Clusters beyond what the device holds at once take their turn."""
    check(p.softmax(x(rows, 16_388)), f"GRID,THREAD-CLUSTER_{blocks}-CTA_256-THREAD_4")
    check(layernorm(rows, 16_388), f"GRID,THREAD-CLUSTER_{blocks}-CTA_256-THREAD_4", "S")


@pytest.mark.parametrize("tiling", [
    "GRID,THREAD_16-THREAD_15-CLUSTER_8-CTA_512-THREAD_4", "GRID,THREAD_8-THREAD_8-CLUSTER_8-CTA_1024-THREAD_4"])
def test_rows_that_fill_the_memory_of_eight_processors(tiling: str) -> None:
    check(p.softmax(x(64, 500_000)), tiling)
    check(layernorm(40, 499_996), tiling)


@pytest.mark.parametrize(("rows", "columns", "blocks"), [
    (300, 40_000, 1), (140, 65_536, 2), (150, 65_535, 2), (300, 80_004, 2), (70, 130_000, 4)])
def test_where_the_rules_choose_them(rows: int, columns: int, blocks: int) -> None:
    for output in (p.softmax(x(rows, columns)), layernorm(rows, columns)):
        graph = region("rows", [output])
        built = compiled(graph, H200, solver="greedy")
        assert [kernel.schedule.mapping.row_blocks for kernel in built.kernels] == [blocks]
        assert [kernel.program.cluster for kernel in built.kernels] == [blocks]
        values = random_values(graph)
        want, allowed = reference(graph, values)
        compare(graph, run_gpu(graph, built, values, runs=5), want, allowed, "H200")


@pytest.mark.parametrize("which", UNLIKE)
def test_beside_blocks_that_are_in_none(which: str) -> None:
    """In one launch."""
    graph = unlike(*UNLIKE[which])
    built = compiled(graph, H200)
    assert len(built.executable.steps) == 1
    values = random_values(graph)
    got, (want, _) = run_gpu(graph, built, values, runs=20), reference(graph, values)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, rtol=0, atol=6e-3 * np.abs(value).max())


@pytest.mark.parametrize("graph", [recurrent(2, 12, units=256), recurrent(3, 8, rows=64, units=512),
                                   gated(8, 256, 36), gated(8, 40, 64)])
def test_rounds_of_recurrent_layers(graph: TensorGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits as with a launch for each kind of kernel."""
    values = scaled(random_values(graph))
    together = run_gpu(graph, compiled(graph, H200), values, runs=20)
    set_numbers(monkeypatch, H200, "choices", pack_us=10.0)
    apart = run_gpu(graph, compiled(graph, H200), values, runs=5)
    for key, value in reference(graph, values)[0].items():
        np.testing.assert_array_equal(together[key], apart[key])
        np.testing.assert_allclose(together[key], value, rtol=0, atol=1e-2 * np.abs(value).max())


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F64, DType.I32])
def test_element_types(dtype: DType) -> None:
    vector = 16 // dtype.size
    check(less_its_maximum(x(50, 40_000, dtype=dtype)), f"GRID,THREAD-CLUSTER_8-CTA_512-THREAD_{vector}", "S")


def test_infinities_and_what_is_no_number() -> None:
    graph = region("rows", [p.softmax(x(8, 20_000))])
    values = random_values(graph)
    rows = values["x:0"]
    rows[1, 7], rows[2], rows[3, 9], rows[4, :6000], rows[5, 3] = np.nan, -np.inf, np.inf, -np.inf, -np.nan
    built = clustered(graph, "GRID,THREAD_5-CLUSTER_8-CTA_128-THREAD_4")
    want, allowed = reference(graph, values)
    compare(graph, run_gpu(graph, built, values), want, allowed, "clusters")
