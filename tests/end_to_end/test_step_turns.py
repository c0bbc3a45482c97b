"""What a step took and takes is measured while a program runs, and the program learns the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.end_to_end.conftest import PROGRAMS, Run, Runner

PROGRAM = PROGRAMS / "measured_steps.py"


def steps(done: Run) -> Any:
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.report is not None
    [step] = [step for step in done.report["steps"] if "train_step" in step["function"]]
    return step


def test_a_programs_step_is_measured_beside_it(forked: Runner, cache: Path) -> None:
    """Three processes with the same cache: each goes on where the one before ended, and learns the same bits."""
    runs = [forked(PROGRAM, calls, TF_STITCH_CACHE=str(cache), TF_STITCH_ASYNC="0") for calls in (250, 250, 500)]
    first, second, third = map(steps, runs)
    assert first["why_not"] == second["why_not"] == third["why_not"] == ""
    assert 4 <= len(first["before_us"]) == second["recalled"] < 12
    assert second["before_us"][:second["recalled"]] == first["before_us"]
    assert runs[0].stdout == runs[1].stdout
    assert "a call of train_step took " in runs[2].said()
    assert "(middle half of " in runs[2].said()


def test_few_calls_say_so(forked: Runner, cache: Path) -> None:
    done = forked(PROGRAM, 30, TF_STITCH_CACHE=str(cache), TF_STITCH_ASYNC="0")
    assert steps(done)["why_not"] == "called 30 times, too seldom"
    assert "no step was measured: train_step: called 30 times, too seldom; " in done.said()


def test_a_session_says_what_is_timed(forked: Runner, cache: Path) -> None:
    """A run of a session's graph cannot be repeated by TensorFlow's: of its regions alone times are known."""
    done = forked(PROGRAMS / "timed_at_once.py", PROGRAMS / "session_steps.py", 200, TF_STITCH_CACHE=str(cache),
                  TF_STITCH_ASYNC="0")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.report is not None
    assert done.report["steps"] == []
    said = done.said()
    assert "no step was measured: of Session.run regions alone are timed; regions of a call of Session.run " in said
    assert " now: " not in said, "nothing is claimed of a step"
