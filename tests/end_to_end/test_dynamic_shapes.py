"""Programs whose shapes change from call to call (N1)."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.end_to_end.conftest import PRECISE, PROGRAMS, Run, Runner
from tests.support.tiers import rows_of_each_commit

MANY_LENGTHS = PROGRAMS / "many_lengths.py"
TWO_BATCHES = PROGRAMS / "two_batches.py"
ALL_SCOPES = ("auto", "region")
SCOPES = pytest.mark.parametrize("scope", ALL_SCOPES)


def check(run: Run) -> None:
    assert run.returncode == 0, run.stderr[-3000:]
    assert float(run.stdout) < 1e-5
    assert run.report is not None
    assert run.report["fallbacks"] == []
    assert run.report["regions"]


def test_two_builds_serve_fifty_lengths(forked: Runner, cache: Path) -> None:
    done = forked(MANY_LENGTHS, 200, 50, 5, TF_STITCH_CACHE=str(cache), **PRECISE)
    check(done)
    assert done.report is not None
    for region in done.report["regions"]:
        assert region["runs"] == 200
        assert region["builds"] <= 2
    assert max(r["executables"] for r in done.report["regions"]) == 50


def test_matmuls_in_a_region(forked: Runner, cache: Path) -> None:
    done = forked(MANY_LENGTHS, 30, 15, 6, TF_STITCH_CACHE=str(cache), TF_STITCH_SCOPE="region", **PRECISE)
    check(done)
    assert done.report is not None
    assert all(r["builds"] <= 2 for r in done.report["regions"])


def test_builds_in_the_background(forked: Runner, cache: Path) -> None:
    done = forked(MANY_LENGTHS, 60, 3, 7, 0.05, TF_STITCH_CACHE=str(cache), TF_STITCH_ASYNC="1", **PRECISE)
    check(done)
    assert done.report is not None
    for region in done.report["regions"]:
        assert region["runs"] > 0, "kernels took over"
        ran = region["runs"] + region["fallbacks"] + region["preferred_fallback_runs"]
        assert ran == 60, "until then TensorFlow's ops ran, and where the profitability check timed them"
    assert sum(r["fallbacks"] for r in done.report["regions"]) > 0


def test_strict_accepts_builds_in_the_background(forked: Runner) -> None:
    check(forked(MANY_LENGTHS, 6, 2, 7, 0.2, stitch="strict", TF_STITCH_ASYNC="1", **PRECISE))


@SCOPES
def test_two_batches_of_one_size(forked: Runner, cache: Path, scope: str) -> None:
    done = forked(TWO_BATCHES, "4x4,2x2,3x3,7x7", TF_STITCH_CACHE=str(cache), TF_STITCH_SCOPE=scope, **PRECISE)
    check(done)
    assert done.report is not None
    for region in done.report["regions"]:
        assert region["runs"] == 4
        assert region["builds"] <= 2


PAIRS = ("4x4,4x1,1x4,1x1,5x5", "4x1,1x4,3x3")


@pytest.mark.parametrize(("pairs", "scope"), rows_of_each_commit(zip(PAIRS, ALL_SCOPES, strict=True),
                                                                 product(PAIRS, ALL_SCOPES)))
def test_two_batches_one_of_which_is_broadcast(forked: Runner, cache: Path, scope: str, pairs: str) -> None:
    """Where that matters TensorFlow's ops run, said once, and what is drawn at random is of the right shape."""
    done = forked(TWO_BATCHES, pairs, TF_STITCH_CACHE=str(cache), TF_STITCH_SCOPE=scope, **PRECISE)
    assert done.returncode == 0, done.stderr[-3000:]
    assert float(done.stdout) < 1e-5
    assert done.report is not None
    steps, unequal = pairs.count("x"), pairs.count("4x1") + pairs.count("1x4")
    fell_back = [region for region in done.report["regions"] if region["fallbacks"]]
    assert fell_back
    assert len(fell_back) < len(done.report["regions"])
    for region in done.report["regions"]:
        assert region["fallbacks"] in (0, unequal)
        assert region["runs"] + region["fallbacks"] == steps
    differ = [f for f in done.report["fallbacks"] if f["stage"] == "build"]
    assert all("assumed equal" in f["reason"] for f in differ)
    assert len(differ) == len(fell_back)
    assert done.said().count("assumed equal") == 1
