"""Memory of a block that is short is given up value by value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.differential.runner import check_all, compare, compiled, random_values, reference, region, run_kernel_ir
from tests.schedule.long_rows import chain, staged_to_the_end
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.families.row import ROW, propose
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.kernel_ir.cost import array_bytes, requested_bytes, shared_bytes
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.schedule.kernel_schedule import Scheme

SMALL = replace(CPU, row_buffer_bytes=2 * 4 * 512)
"""A CPU with room for two rows of 512 numbers."""


def only(graph: TensorGraph, device: DeviceSpec) -> LoweredKernel:
    kernels = compiled(graph, device).kernels
    assert len(kernels) == 1
    return kernels[0]


def test_a_row_too_long_for_shared_memory_still_runs_in_one_kernel() -> None:
    """All that phases hand on would take twice a block's memory; what is alive at one time fits."""
    kernel = only(chain(4, 10_001, 3), H200)
    assert kernel.schedule.family == ROW.name
    assert len(kernel.schedule.staged) == 12
    assert requested_bytes(kernel.program) > 2 * H200.shared_bytes > 2 * shared_bytes(kernel.program) > 0


def test_shared_rows_compute_what_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that would do with registers if there were more of them: the interpreter is slow."""
    monkeypatch.setattr(propose, "REGISTER_ELEMENTS", 1)
    graph = chain(2, 2101, 2)
    region_ = compiled(graph, H200)
    (kernel,) = region_.kernels
    assert {s.scheme for s in kernel.schedule.staged} == {Scheme.REGIONAL}
    assert 0 < shared_bytes(kernel.program) < requested_bytes(kernel.program) / 3
    values = random_values(graph)
    want, allowed = reference(graph, values)
    compare(graph, run_kernel_ir(graph, region_, values), want, allowed, "kernel IR")


@pytest.mark.parametrize(("columns", "kinds"), [
    (300, [K.EXP, K.TANH, K.EXP]), (500, [K.EXP, K.EXP]), (900, [K.EXP]), (1100, [])])
def test_values_give_way_one_by_one_the_cheapest_first(columns: int, kinds: list[K]) -> None:
    kernel = only(staged_to_the_end(8, columns), SMALL)
    assert [s.node.kind for s in kernel.schedule.staged] == kinds
    assert array_bytes(kernel.program) <= SMALL.row_buffer_bytes
    if len(kinds) == 1:
        assert kernel.schedule.staged[0].node.operands[0].kind is K.TANH, "the dearest one stays"


def test_on_a_gpu_too() -> None:
    kernel = only(staged_to_the_end(600, 16_001, 3), H200)
    assert [s.scheme for s in kernel.schedule.staged] == [Scheme.REGIONAL] * 3, "of six values that fit one by one"
    assert 3 * 4 * 16_001 <= shared_bytes(kernel.program) <= H200.shared_bytes


@pytest.mark.parametrize(("columns", "staged"), [(3_000_000, 2), (5_000_000, 1)])
def test_rows_that_blocks_share_keep_what_all_blocks_have_room_for(columns: int, staged: int) -> None:
    """Two values of five million would take more than all shared memory: one of them is read again."""
    b = Builder()
    x, y = (b.input(f"{name}:0", DType.F32, (2, columns)) for name in "xy")
    mean = b.mean(b.mul(x, y), [1], True)
    kernel = only(region("rows", [b.mul(b.sub(x, mean), b.add(y, mean))]), H200)
    assert kernel.schedule.mapping.row_blocks > 100
    assert [s.scheme for s in kernel.schedule.staged] == [Scheme.REGIONAL] * staged


@pytest.mark.parametrize(("graph", "least"), [(chain(6, 3000, 2), 2), (staged_to_the_end(6, 6000), 1)],
                         ids=["chain", "staged"])
def test_on_a_cpu(graph: TensorGraph, least: int) -> None:
    kernel = only(graph, CPU)
    assert len(kernel.schedule.staged) >= least
    check_all(graph, {key: np.asarray(v) for key, v in random_values(graph).items()}, cuda=False)
