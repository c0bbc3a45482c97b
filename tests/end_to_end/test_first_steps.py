"""A graph's first steps wait for its kernels so long and no longer, or are TensorFlow's meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.conftest import PRECISE, PROGRAMS, Plain, Run, Runner, check
from tests.support.fork_server import WHOLE_END
from tf_stitch.plugin.first_calls import ORIGINAL_CALLS

PROGRAM = PROGRAMS / "first_steps.py"
STEPS, PAUSE = 40, 0.2
LITTLE = {"TF_STITCH_FIRST_STEP_SECONDS": "0.05"}


@pytest.fixture(scope="module")
def plain(tensorflow: Plain) -> list[float]:
    values: list[float] = json.loads(tensorflow(PROGRAM, STEPS, 0, **PRECISE))
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


EARNED = PROGRAMS / "earned_at_once.py"
"""Kernels are begun at the second call: programs of tests are too short to earn them."""
FIRST = {"TF_STITCH_ASYNC": "auto", "TF_STITCH_FIRST_STEP_SECONDS": "100"}
"""As users have it, with a clock that decides nothing where a machine is busy."""


def straight(forked: Runner, steps: int, pause: float, cache: Path | None = None, **settings: str) -> Run:
    variables = FIRST | PRECISE | settings if cache is None else FIRST | PRECISE | settings | {
        "TF_STITCH_CACHE": str(cache)}  # fmt: skip
    programs = (PROGRAM,) if cache is None else (EARNED, PROGRAM)
    done = forked(*programs, steps, pause, "straight", **({"stitch": ""} if cache is None else {}), **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def runs(done: Run) -> list[int]:
    assert done.report is not None
    assert done.report["fallbacks"] == []
    return [region["runs"] + region["preferred_fallback_runs"] for region in done.report["regions"]]


def test_first_steps_by_tensorflows_graph(forked: Runner, cache: Path) -> None:
    plain, done = straight(forked, STEPS, 0), straight(forked, STEPS, PAUSE, cache)
    check(done, json.loads(plain.stdout))
    assert 0 < min(runs(done)) < STEPS - 1, "the first and the second call are TensorFlow's"
    losses = [json.loads(run.stdout)[:2] for run in (plain, done)]
    assert losses[0] == losses[1], "bit for bit"


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_program_that_ends_before_its_kernels_are_built(forked: Runner, cache: Path, steps: int) -> None:
    plain, done = straight(forked, steps, 0), straight(forked, steps, 0, cache, **WHOLE_END)
    assert done.stdout == plain.stdout
    assert runs(done) == [0] * len(runs(done))
    assert ("1 called once" if steps == 1 else "1 in its first calls") in done.stderr.splitlines()[-1]


def test_with_a_warm_cache_the_clock_decides_nothing(forked: Runner, cache: Path) -> None:
    steps = 10
    straight(forked, STEPS, PAUSE, cache)
    warm = [straight(forked, steps, pause, cache, TF_STITCH_FIRST_STEP_SECONDS="3000") for pause in (0, 0.3)]
    assert [min(runs(done)) for done in warm] == [steps - ORIGINAL_CALLS] * 2
    assert len({done.stdout for done in warm}) == 1


def test_what_was_stitched_at_once_is_known_later(forked: Runner, cache: Path) -> None:
    straight(forked, 3, 0, cache, TF_STITCH_ASYNC="0")
    assert min(runs(straight(forked, STEPS, 0, cache, TF_STITCH_FIRST_STEP_SECONDS="3000"))) == STEPS - ORIGINAL_CALLS


@pytest.mark.parametrize("settings", [{"TF_STITCH_GUARD": "0"}, {"stitch": "strict"}, {"TF_STITCH_CALLS": "0"}],
                         ids=lambda settings: "_".join(settings))
def test_these_are_stitched_at_once(forked: Runner, cache: Path, settings: dict[str, str]) -> None:
    assert set(runs(straight(forked, 3, 0, cache, **settings))) == {3}


def test_deterministic_programs_are_stitched_at_once(forked: Runner, cache: Path) -> None:
    done = forked(PROGRAMS / "train_bits.py", 3, "deterministic", TF_STITCH_CACHE=str(cache), **FIRST)
    assert done.returncode == 0, done.stderr[-3000:]
    assert 3 in runs(done)


@pytest.mark.parametrize("program", ["called_by_threads.py", "loaded_model.py"])
def test_functions_of_threads_and_of_loaded_models_wait_and_are_stitched(forked: Runner, cache: Path, program: str
                                                                         ) -> None:
    plain = forked(PROGRAMS / program, stitch="")
    done = forked(EARNED, PROGRAMS / program, TF_STITCH_CACHE=str(cache), **FIRST)
    check(done, json.loads(plain.stdout))
    assert sum(runs(done)) > 0


@pytest.mark.parametrize(("asynchronous", "most"), [("auto", 2), ("0", 1)])
def test_what_writes_no_variable_changes_once_at_most(forked: Runner, cache: Path, asynchronous: str, most: int
                                                      ) -> None:
    variables = FIRST | {"TF_STITCH_ASYNC": asynchronous}
    done = forked(EARNED, PROGRAMS / "same_each_time.py", TF_STITCH_CACHE=str(cache), **variables)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) <= most
    assert sum(runs(done)) > 0


def test_a_short_program_builds_nothing(forked: Runner, cache: Path) -> None:
    """Its calls take less than kernels cost: not even the modules that make them are loaded."""
    done = forked(PROGRAM, 10, 0, "straight", TF_STITCH_CACHE=str(cache), TF_STITCH_REPORT="", **FIRST)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "nothing was stitched: functions without kernels yet: 1 in its first calls" in done.stderr
    assert sorted(path.name for path in cache.iterdir()) == ["functions", "native"]
