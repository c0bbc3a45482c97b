"""Where rows end: the last access asks, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.schedule.test_staged_rows import in_two_places, padded
from tf_stitch.families.row.passes import _accesses
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.schedule.kernel_schedule import ThreadMapping


def mapping(items: int, beyond: int) -> ThreadMapping:
    """1000 elements an access of all threads."""
    return ThreadMapping(1, 125, 125, 1, 8, items, beyond=beyond, warp=32)


@pytest.mark.parametrize(("cols", "loops"), [(5000, [2, 3]), (4500, [2, 2, 1]), (3900, [2, 3])])
def test_the_last_access_is_apart_where_a_row_ends_in_it(cols: int, loops: list[int]) -> None:
    """Not where others may be beyond the row too."""
    found = _accesses(mapping(2, 3), cols, apart=False)
    assert [a.item.extent for a in found] == loops
    assert [a.first for a in found] == [0, 2, 4][:len(loops)]


def test_rows_in_registers_are_one_loop() -> None:
    assert [a.item.extent for a in _accesses(mapping(2, 0), 1500, apart=False)] == [2]


@pytest.mark.parametrize(("cols", "apart", "loops"), [
    (5500, False, [6]), (5500, True, [5, 1]), (5000, True, [5]), (900, True, [1])])
def test_loops_that_keep_nothing_may_end_apart(cols: int, apart: bool, loops: list[int]) -> None:
    assert [a.item.extent for a in _accesses(mapping(0, 0), cols, apart)] == loops


def compared(body: Sequence[k.Stmt], loops: int = 0) -> Iterator[int]:
    """For each comparison, the loops over accesses that it is in."""
    for stmt in body:
        if isinstance(stmt, k.Let) and isinstance(stmt.value, k.Apply) and stmt.value.kind is OpKind.LESS:
            yield loops
        elif isinstance(stmt, k.For):
            yield from compared(stmt.body, loops + (stmt.var.name in ("item", "beyond")))
        elif isinstance(stmt, k.If):
            yield from compared((*stmt.body, *stmt.orelse), loops)


def test_columns_that_do_not_count_are_the_last_accesses_alone() -> None:
    kernel = in_two_places(padded(2, 33000, lambda e, x: e))
    found = list(compared(kernel.program.body))
    assert len(found) == 3
    assert not any(found)


def loops(body: Sequence[k.Stmt], wanted: Callable[[k.For], bool]) -> Iterator[k.For]:
    for stmt in body:
        if isinstance(stmt, k.For):
            if wanted(stmt):
                yield stmt
            yield from loops(stmt.body, wanted)


def test_what_is_on_the_chip_takes_no_registers_for_more_accesses_than_one() -> None:
    kernel = in_two_places(padded(2, 41000, lambda e, x: e), "THREAD_3-THREAD_3")
    assert [f.together for f in loops(kernel.program.body, lambda f: f.var.name == "beyond")] == [k.TOGETHER, 1, 1]
