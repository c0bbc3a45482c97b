"""Schedules for larger blocks: the same elements, covered once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential import patterns as p
from tests.support.whole_patterns import whole, x
from tf_stitch.compiler.block_threads import with_items, with_threads
from tf_stitch.device.spec import H200
from tf_stitch.errors import ScheduleError
from tf_stitch.families.column.propose import propose_column
from tf_stitch.families.elementwise import propose_elementwise
from tf_stitch.families.mixed import propose_mixed
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


@pytest.mark.parametrize("threads", [128, 384, 640, 896])
@pytest.mark.parametrize("schedule", [row, column, elementwise], ids=lambda f: f.__name__)
def test_blocks_of_any_whole_rows(schedule: object, threads: int) -> None:
    before = schedule()  # type: ignore[operator]
    after = with_threads(before, threads)
    assert after.mapping.threads == threads
    assert after.mapping.row_threads == before.mapping.row_threads
    program = lower(after).program
    assert (program.grid, program.threads) == (after.mapping.grid, threads)


def test_rows_stay_whole() -> None:
    narrow, width = propose_row(whole(p.softmax(x(5, 3000))), H200, True)[0], 256
    wide = replace(narrow, mapping=replace(narrow.mapping, threads=width, row_threads=width))
    assert with_threads(wide, 2 * width).mapping.rows_per_block == 2 * wide.mapping.rows_per_block
    with pytest.raises(ScheduleError, match=f"of which {width} share a row"):
        with_threads(wide, width + 128)


def test_mixed_reductions_have_powers_of_two_and_no_fewer() -> None:
    """All threads of a block share a row, and keep more of it the fewer they are."""
    a = x(512, 400)
    mixed = propose_mixed(whole(p.softmax(a), B.sum(B.reshape(a, (8, 64, 400)), [1])), H200, True)[0]
    threads = mixed.mapping.threads
    assert with_threads(mixed, 2 * threads).mapping.row_threads == 2 * threads
    for wrong in (threads // 2, 3 * threads):
        with pytest.raises(ScheduleError, match="powers of two from"):
            with_threads(mixed, wrong)


def test_scans_keep_their_blocks() -> None:
    scan = propose_scan(whole(B.cumsum(x(64, 8), False, False)), H200, True)[0]
    with pytest.raises(ScheduleError, match="no blocks of 512"):
        with_threads(scan, 512)
