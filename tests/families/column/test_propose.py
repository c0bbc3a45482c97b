"""Schedules of columns: how wide and deep tiles are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.differential import patterns as p
from tests.support.whole_patterns import whole, x
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.column.propose import propose_column
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.stitch_plan import Pattern

B, F32, K = p.B, DType.F32, OpKind


@pytest.mark.parametrize(("length", "columns", "row_threads", "threads", "together"), [
    (512, 512, 4, 256, 16), (512, 2048, 8, 256, 16), (2048, 512, 4, 512, 16), (4096, 4096, 8, 512, 16),
    (512, 30_000, 32, 512, 16), (40, 64, 8, 256, 16), (40, 100_000, 32, 256, 0)])
def test_columns_of_few_blocks(length: int, columns: int, row_threads: int, threads: int, together: int) -> None:
    """Narrow tiles, many threads of a column and many rows under way together, as measured for matmuls of one row."""
    schedule = propose_column(whole(B.sum(x(length, columns), [0])), H200, True)[0]
    mapping = schedule.mapping
    assert (mapping.row_threads, mapping.threads, schedule.together) == (row_threads, threads, together)


def test_rows_under_way_together_fit_registers() -> None:
    several = [B.input(f"x{i}", F32, (512, 512)) for i in range(3)]
    schedule = propose_column(whole(*(B.sum(one, [0]) for one in several)), H200, True)[0]
    assert schedule.together == 4


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
