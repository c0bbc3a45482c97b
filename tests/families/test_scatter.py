"""Rows combined by index: one kernel with what computes them, on both kinds of device."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import (
    Values,
    build_cubin,
    compare,
    compiled,
    random_values,
    reference,
    region,
    run_host,
    run_kernel_ir,
)
from tests.support.cuda_on_cpu import ADVERSARIES, Adversary, Order, run_on_cpu
from tests.support.whole_patterns import whole
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import BuildError, ScheduleError
from tf_stitch.families.scatter import SCATTER, SPLIT, lower_scatter, propose_scatter
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import Combine
from tf_stitch.kernel_ir.text_format import format_program

B = p.B
F32 = DType.F32
SHUFFLED = Adversary(Order.SHUFFLED)


def updates(*shape: int, dtype: DType = F32, key: str = "x:0") -> Node:
    return B.input(key, dtype, shape)


def rows(n: int, key: str = "rows:0", dtype: DType = DType.I64) -> Node:
    return B.input(key, dtype, (n,))


def scattered(x: Node, shape: tuple[int, ...], combine: Combine = Combine.SUM, before: Node | None = None,
              key: str = "rows:0", updates_first: bool = False) -> Node:
    return B.scatter(B.scalar_like(0, x) if before is None else before, rows(x.type.dims[0], key), x, shape, combine,
                     updates_first)


def values_of(graph: TensorGraph, most: int, negative: bool = True, seed: int = 0) -> Values:
    """Rows are repeated, and some negative."""
    values = random_values(graph)
    rng = np.random.default_rng(seed)
    for key, value in values.items():
        if key.startswith("rows"):
            values[key] = rng.integers(-2 if negative else 0, most, value.shape).astype(value.dtype)
    return values


def run(graph: TensorGraph, built: CompiledRegion, values: Values, device: DeviceSpec, adversary: Adversary) -> Values:
    return run_host(graph, built, values) if not device.simt else run_on_cpu(graph, built, values, adversary)


def check(graph: TensorGraph, values: Values, device: DeviceSpec, kernels: int = 1,
          adversary: Adversary = SHUFFLED) -> None:
    built = compiled(graph, device)
    assert [kernel.schedule.family for kernel in built.kernels].count(SCATTER.name) == len(built.kernels) == kernels
    compare(graph, run(graph, built, values, device, adversary), *reference(graph, values), device.name)


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
@pytest.mark.parametrize(("n", "shape"), [(7, (5, 3)), (300, (40, 16)), (1, (1, 1)), (50, (9,)), (20, (4, 2, 3)),
                                          (0, (4, 2)), (4096, (37, 20))], ids=str)
def test_sums(device: DeviceSpec, n: int, shape: tuple[int, ...]) -> None:
    graph = region("g", [scattered(updates(n, *shape[1:]), shape)])
    check(graph, values_of(graph, shape[0]), device)


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
@pytest.mark.parametrize(("combine", "dtype"), [*product(
    (Combine.SUM, Combine.PROD, Combine.MAX, Combine.MIN),
    (F32, DType.F64, DType.I32, DType.I64, DType.F16, DType.BF16))])
def test_what_becomes_of_an_element(device: DeviceSpec, combine: Combine, dtype: DType) -> None:
    x = updates(24, 3, dtype=dtype)
    graph = region("g", [scattered(x, (6, 3), combine, updates(6, 3, dtype=dtype, key="before:0"))])
    check(graph, values_of(graph, 6), device)


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=str)
@pytest.mark.parametrize("combine", [Combine.SUM, Combine.MAX, Combine.PROD])
def test_threads_in_any_order(adversary: Adversary, combine: Combine) -> None:
    graph = region("g", [scattered(updates(600, 8), (30, 8), combine, updates(30, 8, key="before:0"))])
    check(graph, values_of(graph, 30), H200, adversary=adversary)


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(6, 5, 3), (2, 3, 4, 7)], ids=str)
def test_rows_of_several_axes(device: DeviceSpec, shape: tuple[int, ...]) -> None:
    axes = len(shape) - 1
    before, x = updates(*shape, key="before:0"), updates(9, shape[-1])
    graph = region("g", [B.scatter(before, rows(9), x, shape, Combine.SUM, row_axes=axes)])
    values = values_of(graph, int(np.prod(shape[:-1])))
    flat = values["before:0"].reshape(-1, shape[-1]).astype(np.float64)
    for row, update in zip(values["rows:0"], values["x:0"], strict=True):
        if row >= 0:
            flat[row] += update
    np.testing.assert_allclose(reference(graph, values)[0]["o0"], flat.reshape(shape), rtol=1e-6)
    check(graph, values, device)


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_producers_are_computed_where_they_are_scattered(device: DeviceSpec) -> None:
    x, scale = updates(512, 16), updates(512, 1, key="scale:0")
    graph = region("g", [scattered(B.mul(B.exp(x), B.broadcast(scale, (512, 16))), (64, 16))])
    check(graph, values_of(graph, 64), device)


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_indices_may_be_computed(device: DeviceSpec) -> None:
    x = updates(40, 4)
    at = B.add(rows(40), B.constant(1, DType.I64))
    graph = region("g", [B.scatter(B.constant(0, F32), at, x, (9, 4), Combine.SUM)])
    check(graph, values_of(graph, 8), device)


def test_a_gradient_of_a_gather_is_live_out_to_its_optimizer() -> None:
    """The scatter is one kernel, and what reads its result the next."""
    table, x = B.variable("table", F32, (50, 8)), updates(64, 8)
    gradient = scattered(B.mul(x, B.scalar_like(0.5, x)), (50, 8))
    graph = region("g", [], {"table": B.sub(table, B.mul(gradient, B.scalar_like(0.1, x)))})
    values = values_of(graph, 50)
    for device in (CPU, H200):
        built = compiled(graph, device)
        assert [kernel.schedule.family for kernel in built.kernels] == [SCATTER.name, "elementwise"]
        compare(graph, run(graph, built, values, device, SHUFFLED), *reference(graph, values), device.name)


def test_tasks_share_rows_of_many_updates() -> None:
    many = replace(CPU, processors=4)
    graph = region("g", [scattered(updates(SPLIT // 8, 8), (30, 8))])
    [kernel] = compiled(graph, many).kernels
    assert kernel.schedule.mapping.grid == 4
    check(graph, values_of(graph, 30), many)


def test_several_scatters_share_a_launch_and_its_barrier() -> None:
    outputs = [scattered(updates(70, 5), (20, 5)), scattered(updates(9, 3, key="y:0"), (4, 3), key="rows1:0")]
    [schedule] = propose_scatter(whole(*outputs), H200, True)
    assert format_program(lower_scatter(schedule).program).count("grid barrier") == 1


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_a_row_behind_the_last(device: DeviceSpec) -> None:
    """An error on a CPU; left out on a GPU, as in TensorFlow."""
    graph = region("g", [scattered(updates(3, 2), (4, 2))])
    values = values_of(graph, 4) | {"rows:0": np.array([1, 4, 9])}
    built = compiled(graph, device)
    if device is CPU:
        with pytest.raises(BuildError, match="out of range"):
            run(graph, built, values, device, SHUFFLED)
        return
    got = run(graph, built, values, device, SHUFFLED)["o0"]
    want = np.zeros((4, 2), np.float32)
    want[1] = values["x:0"][0]
    np.testing.assert_array_equal(got, want)


def test_nvrtc_compiles_every_atomic_operation() -> None:
    combines = (Combine.SUM, Combine.PROD, Combine.MAX, Combine.MIN)
    dtypes = (F32, DType.F64, DType.I32, DType.I64, DType.F16, DType.BF16)
    outputs = [scattered(updates(9, 3, dtype=dtype, key=f"{dtype.value}:0"), (4, 3), combine)
               for dtype, combine in product(dtypes, combines)]
    build_cubin(compiled(region("g", outputs), H200))


@pytest.mark.parametrize(("nodes", "device", "reason"), [
    ([B.exp(updates(8))], CPU, "not scatters alone"),
    ([B.exp(scattered(updates(8, 2), (4, 2)))], CPU, "not scatters alone"),
    ([scattered(updates(8, 2), (4, 2))], replace(H200, grid_barrier=False), "without grid barriers")])
def test_what_it_declines(nodes: list[Node], device: DeviceSpec, reason: str) -> None:
    with pytest.raises(ScheduleError, match=reason):
        propose_scatter(whole(*nodes), device, True)


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
@pytest.mark.parametrize("combine", Combine)
def test_kernel_programs_mean_the_same(device: DeviceSpec, combine: Combine) -> None:
    x = updates(12, 3)
    at = B.iota((12,), 0, DType.I32) if combine is Combine.SET else rows(12)
    graph = region("g", [B.scatter(updates(14, 3, key="before:0"), at, x, (14, 3), combine)])
    values = values_of(graph, 14)
    compare(graph, run_kernel_ir(graph, compiled(graph, device), values), *reference(graph, values), "kernel IR")


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=str)
def test_gradients_of_several_tables_are_one_launch(adversary: Adversary) -> None:
    gradient = updates(64, 12)  # of what was concatenated
    slices = [B.slice(gradient, [0, 4 * i], [1, 1], (64, 4)) for i in range(3)]
    outputs = [scattered(x, (20 + i, 4), key=f"rows{i}:0") for i, x in enumerate(slices)]
    graph = region("g", outputs)
    check(graph, values_of(graph, 20), H200, adversary=adversary)
