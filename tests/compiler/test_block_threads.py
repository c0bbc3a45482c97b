"""Schedules for larger blocks: the same elements, covered once."""

from __future__ import annotations

import pytest

from tests.differential import patterns as p
from tests.support.whole_patterns import whole, x
from tf_stitch.compiler.block_threads import with_items, with_threads
from tf_stitch.device.spec import H200
from tf_stitch.errors import ScheduleError
from tf_stitch.families.column.propose import propose_column
from tf_stitch.families.elementwise import propose_elementwise
from tf_stitch.families.registry import lower
from tf_stitch.families.row import ROW
from tf_stitch.families.row.propose import propose_row
from tf_stitch.families.scan import propose_scan
from tf_stitch.schedule.kernel_schedule import KernelSchedule

B = p.B


def row() -> KernelSchedule:
    return propose_row(whole(p.softmax(x(500, 100))), H200, True)[0]


def column() -> KernelSchedule:
    return propose_column(whole(B.sum(x(500, 100), [0])), H200, True)[0]


def elementwise() -> KernelSchedule:
    return propose_elementwise(whole(B.exp(x(500, 100))), H200, True)[0]


@pytest.mark.parametrize("threads", [512, 1024])
@pytest.mark.parametrize("schedule", [row, column, elementwise], ids=lambda f: f.__name__)
def test_blocks_of_more_threads(schedule: object, threads: int) -> None:
    before = schedule()  # type: ignore[operator]
    after = with_threads(before, threads)
    assert after.mapping.threads == threads
    assert after.mapping.row_threads == before.mapping.row_threads
    assert after.mapping.vector == before.mapping.vector
    assert after.mapping.grid <= before.mapping.grid
    program = lower(after).program
    assert (program.grid, program.threads) == (after.mapping.grid, threads)
    if before.family == ROW.name:
        assert after.mapping.grid * after.mapping.rows_per_block >= 500


def test_more_accesses_of_a_thread() -> None:
    before = elementwise()
    after = with_items(before, 4)
    assert after.mapping.items == 4
    assert after.mapping.grid == -(-before.mapping.grid // 4)
    other = row()
    assert with_items(other, 4) is other


def test_blocks_never_shrink_and_scans_keep_theirs() -> None:
    with pytest.raises(ScheduleError, match="no blocks of 128"):
        with_threads(elementwise(), 128)
    scan = propose_scan(whole(B.cumsum(x(64, 8), False, False)), H200, True)[0]
    with pytest.raises(ScheduleError, match="no blocks of 512"):
        with_threads(scan, 512)
