"""The table that says whether the line at exit is true."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from tf_stitch.report.verdict import Step
from tools.verdict.programs import PROGRAMS
from tools.verdict.row import NAMES, Round, Row, ratio_said, row_of, step_ms, table
from tools.verdict.run import Run


def said(before_us: float, now_us: float) -> str:
    return f"[tf_stitch] {Step('f', 9, 4, before_us, now_us)}; 3 regions"


def test_the_line_is_read() -> None:
    assert ratio_said(said(8_000.0, 4_000.0)) == 2.0
    assert ratio_said(said(150.0, 60.0)) == 2.5
    assert ratio_said(said(60.0, 120.0)) == 0.5
    assert ratio_said("[tf_stitch] no step was measured: f: called 3 times, too seldom") is None


def test_a_round_compares_the_line_with_the_turns() -> None:
    one = Round((4.0, 9.0, 40.0), (2.0, 3.0, 10.0), said(3_300.0, 1_000.0))
    twice = Round((9.0,) * 3 + one.before_ms, (1.0,) * 3 + one.now_ms, one.said)
    assert twice.late == one
    assert one.shown == 3.0
    assert one.spread == (2.0, 4.0)
    assert one.off == pytest.approx(0.1)
    assert one.is_near
    assert one.is_in_spread
    far = Round((2.0, 3.0), (2.0, 2.0), said(1_500.0, 1_000.0))
    beyond = Round((2.0,), (2.0,), said(40.0, 1.0))
    unmeasured = Round((2.0,), (2.0,), "")
    far = Round((9.0, 9.0) + far.before_ms, (1.0, 1.0) + far.now_ms, far.said)
    rows = [Row("f", (twice, far)), Row("g", (beyond,)), Row("h", (unmeasured,))]
    assert [(row.near, row.right) for row in rows] == [(1, 2), (0, 0), (0, 0)]
    assert table(rows).splitlines()[2:] == [
        "| f | 9.000 | 3.000 | 3 | 2.00 to 4.00 | 3.00x | 3.30x | +10 % | yes |",
        "| f | 2.500 | 2.000 | 2 | 1.00 to 1.50 | 1.25x | 1.50x | +20 % | in the spread |",
        "| g | 2.000 | 2.000 | 1 | 1.00 to 1.00 | 1.00x | 40.00x | +3900 % | no |",
        "| h | 2.000 | 2.000 | 1 | 1.00 to 1.00 | 1.00x | no number |  | no |"]


def test_a_tenth_of_the_turns_at_each_end_is_no_spread() -> None:
    one = Round((0.1, *(2.0,) * 5, *(3.0,) * 4, 90.0), (1.0,) * 11, "")
    assert one.spread == (2.0, 3.0)


def test_rows_are_read_as_they_were_written() -> None:
    row = Row("f", (Round((4.0,), (2.0,), "x"),))
    assert row_of(json.loads(json.dumps(asdict(row)))) == row


def test_a_run_goes_on_when_it_is_told_to() -> None:
    with Run("few_ops", None) as run:
        assert run.steps(0.01) > 0.0
        assert run.steps(0.01) > 0.0
        assert run.end() == "", "TensorFlow alone"


def test_a_program_prints_its_step() -> None:
    assert step_ms("x\nstep 1.250000 ms\n") == 1.25
    with pytest.raises(ValueError, match="no time of a step"):
        step_ms("Killed")


def test_all_programs_are_measured() -> None:
    assert set(NAMES) == set(PROGRAMS)
    assert len(NAMES) == 10
