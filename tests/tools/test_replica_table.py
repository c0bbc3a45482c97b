"""The table of replicas follows from its rows, and its page has the table of the committed ones."""

from __future__ import annotations

import csv

import pytest

from tools.replica_table import ROWS, Machines, Step, all_reduce_ms, step_ms, table

STEP, FLAT = Step("net", 12.0, 6.0, 0.5), Machines(64, 1.0)


def test_an_all_reduce_of_two_is_what_was_measured_and_of_many_nearly_twice_that() -> None:
    assert [all_reduce_ms(STEP, n, FLAT) for n in (1, 2, 8)] == [0.0, 6.0, 10.5]


def test_between_machines_each_gpu_reduces_its_part() -> None:
    assert all_reduce_ms(STEP, 16, Machines(8, 4.0)) == pytest.approx(10.5 + 4 * 6.0 / 8)
    assert all_reduce_ms(STEP, 16, Machines(1, 1.0)) == all_reduce_ms(STEP, 16, FLAT)


def test_an_all_reduce_hides_behind_the_backward_pass_alone() -> None:
    assert step_ms(STEP, 8, FLAT, overlapped=False) == 22.5
    assert step_ms(STEP, 8, FLAT, overlapped=True) == 16.5
    assert step_ms(STEP, 2, FLAT, overlapped=True) == 12.0


def test_the_page_has_the_committed_rows() -> None:
    with ROWS.open(newline="") as file:
        steps = [Step.of(row) for row in csv.DictReader(file)]
    page = ROWS.with_suffix(".md").read_text()
    for machines in (FLAT, Machines(8, 4.0)):
        assert "\n".join(table(steps, machines)) in page
