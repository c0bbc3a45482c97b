"""A graph's first step waits for its kernels so long and no longer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.conftest import PRECISE, PROGRAMS, Run, Runner, check

PROGRAM = PROGRAMS / "first_steps.py"
STEPS, PAUSE = 40, 0.2
LITTLE = {"TF_STITCH_FIRST_STEP_SECONDS": "0.05"}


@pytest.fixture(scope="module")
def plain(forked: Runner) -> list[float]:
    done = forked(PROGRAM, STEPS, 0, stitch="", **PRECISE)
    assert done.returncode == 0, done.stderr[-3000:]
    values: list[float] = json.loads(done.stdout)
    return values


def given_up(done: Run) -> list[int]:
    """How often it was said, of each graph."""
    assert done.report is not None
    assert done.report["fallbacks"] == []
    assert len(done.report["regions"]) > 3
    return [r["count"] for r in done.report["remarks"] if "TF_STITCH_FIRST_STEP_SECONDS" in r["reason"]]


def fallback_runs(done: Run) -> int:
    assert done.report is not None
    return sum(region["fallbacks"] for region in done.report["regions"])


def test_the_fallback_runs_until_the_background_has_built(forked: Runner, cache: Path, plain: list[float]) -> None:
    done = forked(PROGRAM, STEPS, PAUSE, TF_STITCH_CACHE=str(cache), **LITTLE, **PRECISE)
    check(done, plain)
    assert given_up(done) == [1]
    assert fallback_runs(done) > 0
    assert done.report is not None
    for region in done.report["regions"]:
        ran = region["runs"] + region["preferred_fallback_runs"]
        assert region["executables"] == 0 or ran > 0, region


@pytest.mark.parametrize("settings", [{"TF_STITCH_GUARD": "0"}, {"TF_STITCH_FUEL": "1000"}, {"stitch": "strict"},
                                      {"TF_STITCH_FIRST_STEP_SECONDS": "0"}],
                         ids=lambda settings: "_".join(settings))
def test_these_wait(forked: Runner, cache: Path, plain: list[float], settings: dict[str, str]) -> None:
    done = forked(PROGRAM, STEPS, 0, TF_STITCH_CACHE=str(cache), **(LITTLE | PRECISE | settings))
    check(done, plain)
    assert given_up(done) == []
    assert fallback_runs(done) == 0


def test_first_steps_by_tensorflows_graph(forked: Runner, cache: Path, plain: list[float]) -> None:
    done = forked(PROGRAM, STEPS, PAUSE, TF_STITCH_CACHE=str(cache), TF_STITCH_ASYNC="graph", **PRECISE)
    check(done, plain)
    assert done.report is not None
    assert done.report["fallbacks"] == []
    runs = [region["runs"] for region in done.report["regions"]]
    assert 0 < min(runs) < STEPS - 1, "the first and the second call are TensorFlow's"


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_program_that_ends_before_its_kernels_are_built(forked: Runner, cache: Path, steps: int) -> None:
    plain = forked(PROGRAM, steps, 0, stitch="", **PRECISE)
    done = forked(PROGRAM, steps, 0, TF_STITCH_CACHE=str(cache), TF_STITCH_ASYNC="graph", **PRECISE)
    assert done.stdout == plain.stdout
    assert done.report is not None
    assert done.report["fallbacks"] == []
    assert "TF_STITCH_ASYNC" in done.stderr.splitlines()[-1]
