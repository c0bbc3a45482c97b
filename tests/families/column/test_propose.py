"""Schedules of columns: how wide and deep tiles are."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compiled, region
from tests.support.whole_patterns import whole, x
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.column.propose import propose_column, rows_before_stores
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.walk import statements
from tf_stitch.planning.pattern import Pattern

B, F32, K = p.B, DType.F32, OpKind


@pytest.mark.parametrize(("length", "columns", "row_threads", "threads", "together"), [
    (512, 512, 4, 256, 16), (512, 2048, 8, 256, 16), (2048, 512, 4, 512, 16), (4096, 4096, 8, 512, 16),
    (512, 30_000, 32, 512, 16), (40, 64, 8, 256, 16), (40, 100_000, 32, 256, 0)])
def test_columns_of_few_blocks(length: int, columns: int, row_threads: int, threads: int, together: int) -> None:
    """Narrow tiles, many threads of a column and many rows under way together, as measured for matmuls of one row."""
    schedule = propose_column(whole(B.sum(x(length, columns), [0])), H200, True)[0]
    mapping = schedule.mapping
    assert (mapping.row_threads, mapping.threads, schedule.together) == (row_threads, threads, together)


@pytest.mark.parametrize("times_a_vector", [False, True])
def test_what_may_be_read_before_other_launches_end_has_fewer_threads(times_a_vector: bool) -> None:
    """They have registers for twice as much: most matrices that a vector is multiplied with are weights."""
    rows = x(4096, 512)
    if times_a_vector:
        rows = B.mul(rows, B.broadcast(B.reshape(x(4096), (4096, 1)), (4096, 512)))
    schedule = propose_column(whole(B.sum(rows, [0])), H200, True)[0]
    assert (schedule.mapping.threads, schedule.together) == ((256, 32) if times_a_vector else (512, 16))


def test_rows_under_way_together_fit_registers() -> None:
    several = [B.input(f"x{i}", F32, (512, 512)) for i in range(3)]
    for sums, together in (([B.sum(one, [0]) for one in several], 4),
                           ([B.sum(B.mul(one, B.broadcast(B.reshape(x(512), (512, 1)), (512, 512))), [0])
                             for one in several], 8)):
        assert propose_column(whole(*sums), H200, True)[0].together == together


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (513, 1000), (100_000, 3), (3, 100_000)])
def test_grids_cover_the_columns(shape: tuple[int, int]) -> None:
    column = propose_column(whole(B.sum(x(*shape), [0])), H200, True)[0].mapping
    tile = column.row_threads * column.vector
    assert (column.grid - 1) * tile < shape[1] <= column.grid * tile
    assert column.threads <= 512


@pytest.mark.parametrize(("pattern", "reason"), [
    (lambda: whole(B.exp(x(4, 8))), "no reduction"),
    (lambda: whole(B.sum(x(4, 8), [1])), "reduces its last axis"),
    (lambda: whole(B.sum(x(4, 8), [0]), B.sum(x(3, 8), [0])), "different extents"),
])
@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_what_it_declines_and_why(pattern: Callable[[], Pattern], reason: str, device: DeviceSpec) -> None:
    with pytest.raises(ScheduleError, match=reason):
        propose_column(pattern(), device, True)


@pytest.mark.parametrize(("tensors", "rows"), [(1, 2), (8, 2), (9, 1)])
def test_rows_are_loaded_before_any_of_them_is_stored_as_registers_allow(tensors: int, rows: int) -> None:
    added = functools.reduce(B.add, (B.input(f"x{i}", F32, (512, 784, 64)) for i in range(tensors)))
    [schedule] = propose_column(whole(B.sum(added, [1]), B.exp(added)), H200, True)
    assert rows_before_stores(schedule) == rows


def test_rows_whose_neighbours_are_read_are_stored_one_by_one() -> None:
    shifted = B.add(x(512, 784, 64), B.pad(B.input("y", F32, (512, 783, 64)), B.constant(0, F32), (0, 1, 0), (0, 0, 0)))
    [schedule] = propose_column(whole(B.sum(shifted, [1]), B.exp(shifted)), H200, True)
    assert rows_before_stores(schedule) == 1


@pytest.mark.parametrize("length", [16, 63, 64, 65, 96, 784])
def test_loads_of_two_rows_come_before_their_stores(length: int) -> None:
    """Of any number of rows, of which 16 are the block's at a time."""
    graph = region("g", [B.sum(x(512, length, 64), [1]), B.exp(x(512, length, 64))])
    [kernel] = compiled(graph, H200).kernels
    assert kernel.schedule.family == "column_reduction"
    loops = [s for s in statements(kernel.program.body) if isinstance(s, k.For) and s.var.name == "turn"]
    if length < 64:
        assert not loops
        return
    [loop] = loops
    kinds = [type(s) for s in loop.body]
    assert kinds.count(k.LoadVector) == kinds.count(k.StoreVector) == 2
    assert max(i for i, kind in enumerate(kinds) if kind is k.LoadVector) < kinds.index(k.StoreVector)
