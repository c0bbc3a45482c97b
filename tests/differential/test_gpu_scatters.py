"""Scatters on a GPU, where there is one: real atomic operations, and a real grid barrier."""

from __future__ import annotations

from itertools import product

import pytest

from tests.differential.gpu_run import run_gpu
from tests.differential.runner import compare, compiled, reference, region
from tests.families.test_scatter import scattered, updates, values_of
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_attrs import Combine
from tf_stitch.runtime.device_run import gpu_is_here

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_is_here(), reason="no GPU")]
B, F32 = Builder(), DType.F32


def check(graph: TensorGraph, most: int, runs: int = 3) -> None:
    values = values_of(graph, most)
    compare(graph, run_gpu(graph, compiled(graph, H200), values, runs), *reference(graph, values), "GPU")


@pytest.mark.parametrize(("n", "shape"), [(7, (5, 3)), (4096, (5000, 16)), (20_000, (3, 1)), (100_000, (40, 8)),
                                          (300, (200_000, 4)), (0, (4, 2))], ids=str)
def test_sums(n: int, shape: tuple[int, ...]) -> None:
    x = updates(n, *shape[1:])
    check(region("g", [scattered(B.mul(x, B.scalar_like(0.5, x)), shape)]), shape[0])


def test_every_combination_of_every_type() -> None:
    combines = (Combine.SUM, Combine.PROD, Combine.MAX, Combine.MIN)
    dtypes = (F32, DType.F64, DType.I32, DType.I64, DType.F16, DType.BF16)
    check(region("g", [scattered(updates(40, 3, dtype=dtype, key=f"{dtype.value}:0"), (9, 3), combine)
                       for dtype, combine in product(dtypes, combines)]), 9)


def test_overwriting_rows_that_differ() -> None:
    at = B.add(B.iota((12,), 0, DType.I32), B.constant(1, DType.I32))
    check(region("g", [B.scatter(updates(14, 3, key="before:0"), at, updates(12, 3), (14, 3), Combine.SET)]), 14)


def test_gradients_of_many_tables_and_their_optimizer() -> None:
    """Thousands of updates of a few hot rows, several tables a launch."""
    assigns, whole = {}, updates(4096, 12 * 16)
    for i in range(12):
        part = B.slice(whole, [0, 16 * i], [1, 1], (4096, 16))
        gradient = scattered(part, (500 + i, 16), key=f"rows{i}:0")
        table = B.variable(f"table{i}", F32, (500 + i, 16))
        assigns[f"table{i}"] = B.sub(table, B.mul(gradient, B.scalar_like(0.1, gradient)))
    graph = region("g", [], assigns)
    values = values_of(graph, 500)
    for i in range(12):
        values[f"rows{i}:0"][:3000] = 7
    built = compiled(graph, H200)
    assert sum(kernel.schedule.pattern.outputs[0].kind.value == "scatter" for kernel in built.kernels) < 12
    compare(graph, run_gpu(graph, built, values), *reference(graph, values), "GPU")


def test_rows_of_variables_in_place() -> None:
    """Two tables in one launch without a barrier, beside a kernel that does not depend on them."""
    whole, assigns = updates(512, 16), {}
    for i in range(2):
        table = B.variable(f"table{i}", F32, (100_000 + i, 8))
        part = B.slice(whole, [0, 8 * i], [1, 1], (512, 8))
        at = B.input(f"rows{i}:0", DType.I64, (512,))
        assigns[f"table{i}"] = B.scatter(table, at, part, table.type.shape, Combine.SUM)
    check(region("g", [B.exp(updates(3000, 7, key="y:0"))], assigns), 300, runs=1)
