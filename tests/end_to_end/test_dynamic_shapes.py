"""Programs whose shapes change from call to call (N1)."""

from __future__ import annotations

from pathlib import Path

from tests.end_to_end.conftest import PRECISE, PROGRAMS, Run, Runner

MANY_LENGTHS = PROGRAMS / "many_lengths.py"


def check(run: Run) -> None:
    assert run.returncode == 0, run.stderr[-3000:]
    assert float(run.stdout) < 1e-5
    assert run.report is not None
    assert run.report["fallbacks"] == []
    assert run.report["regions"]


def test_two_builds_serve_fifty_lengths(run: Runner, cache: Path) -> None:
    done = run(MANY_LENGTHS, 200, 50, 5, TF_STITCH_CACHE=str(cache), **PRECISE)
    check(done)
    assert done.report is not None
    for region in done.report["regions"]:
        assert region["runs"] == 200
        assert region["builds"] <= 2
    assert max(r["executables"] for r in done.report["regions"]) == 50


def test_products_in_a_region(run: Runner, cache: Path) -> None:
    done = run(MANY_LENGTHS, 30, 15, 6, TF_STITCH_CACHE=str(cache), TF_STITCH_SCOPE="region", **PRECISE)
    check(done)
    assert done.report is not None
    assert all(r["builds"] <= 2 for r in done.report["regions"])


def test_builds_in_the_background(run: Runner, cache: Path) -> None:
    done = run(MANY_LENGTHS, 60, 3, 7, 0.05, TF_STITCH_CACHE=str(cache), TF_STITCH_ASYNC="1", **PRECISE)
    check(done)
    assert done.report is not None
    for region in done.report["regions"]:
        assert region["runs"] > 0, "kernels took over"
        ran = region["runs"] + region["fallbacks"] + region["original_runs"]
        assert ran == 60, "until then TensorFlow's ops ran, and where the guard timed them"
    assert sum(r["fallbacks"] for r in done.report["regions"]) > 0


def test_strict_accepts_builds_in_the_background(run: Runner) -> None:
    check(run(MANY_LENGTHS, 6, 2, 7, 0.2, stitch="strict", TF_STITCH_ASYNC="1", **PRECISE))
