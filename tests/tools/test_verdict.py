"""The table that says whether the line at exit is true."""

from __future__ import annotations

import pytest

from tf_stitch.report.verdict import Step
from tools.verdict.programs import PROGRAMS
from tools.verdict.row import NAMES, Row, ratio_said, step_ms, table, within


def said(before_us: float, now_us: float) -> str:
    return f"[tf_stitch] {Step('f', 9, 4, before_us, now_us)}; 3 regions"


def test_the_line_is_read() -> None:
    assert ratio_said(said(8_000.0, 4_000.0)) == 2.0
    assert ratio_said(said(150.0, 60.0)) == 2.5
    assert ratio_said(said(60.0, 120.0)) == 0.5
    assert ratio_said("[tf_stitch] no step was measured: f: called 3 times, too seldom") is None


def test_a_row_compares_it_with_runs() -> None:
    row = Row("f", (4.0, 9.0, 40.0), (2.0, 3.0, 10.0), (said(1.0, 1.0), said(3_300.0, 1_000.0)))
    assert row.runs == 3.0
    assert row.fastest == 2.0
    assert row.off(row.runs) == pytest.approx(0.1)
    assert within([row], lambda row: row.runs) == 1
    assert within([row], lambda row: row.fastest) == 0
    far = Row("g", (2.0,), (2.0,), (said(40.0, 1.0),))
    unmeasured = Row("h", (2.0,), (2.0,), ("",))
    assert table([row, far, unmeasured]).splitlines()[2:] == [
        "| f | 4.000 | 2.000 | 3 | 2.00 to 4.00 (noise) | 3.00x | 2.00x | 3.30x | +10 % | +65 % (!) |",
        "| g | 2.000 | 2.000 | 1 | 1.00 to 1.00 | 1.00x | 1.00x | 40.00x | +3900 % (!) | +3900 % (!) |",
        "| h | 2.000 | 2.000 | 1 | 1.00 to 1.00 | 1.00x | 1.00x | no number |  |  |"]


def test_rounds_that_lie_apart_say_nothing() -> None:
    line = (said(2.0, 1.0),) * 3
    assert Row("f", (2.0, 2.2, 2.4), (1.0, 1.0, 1.0), line).is_told
    assert not Row("f", (2.0, 2.2, 2.7), (1.0, 1.0, 1.0), line).is_told


def test_a_program_prints_its_step() -> None:
    assert step_ms("x\nstep 1.250000 ms\n") == 1.25
    with pytest.raises(ValueError, match="no time of a step"):
        step_ms("Killed")


def test_all_programs_are_measured() -> None:
    assert set(NAMES) == set(PROGRAMS)
    assert len(NAMES) == 10
