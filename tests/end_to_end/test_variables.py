"""Variables that a stitched graph updates, seen by their other users."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.end_to_end.conftest import PRECISE, PROGRAMS, Run, Runner

PROGRAM = PROGRAMS / "variables.py"
OVERWRITTEN = PROGRAMS / "overwritten.py"


@pytest.fixture(scope="module")
def plain(forked: Runner) -> dict[str, Any]:
    done = forked(PROGRAM, stitch="", **PRECISE)
    assert done.returncode == 0, done.stderr[-3000:]
    results: dict[str, Any] = json.loads(done.stdout)
    return results


@pytest.fixture(scope="module", params=["check", "no check"])
def stitched(request: pytest.FixtureRequest, forked: Runner) -> Run:
    programs = (PROGRAMS / "timed_at_once.py", PROGRAM) if request.param == "check" else (PROGRAM,)
    done = forked(*programs, stitch="strict", TF_STITCH_GUARD=str(int(request.param == "check")), **PRECISE)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.reasons() == ""
    checked = (done.report or {})["profitability"]
    assert bool(checked) == (request.param == "check")
    assert all(g["stitched_us"] > 0 and g["fallback_us"] > 0 for g in checked)
    return done


def test_two_replicas_agree(stitched: Run, plain: dict[str, Any]) -> None:
    results = json.loads(stitched.stdout)
    assert stitched.stitched("mirrored_graph") > 0
    assert results["devices"] == 2
    assert results["replicas_agree"]
    for name in ("losses", "weight"):
        np.testing.assert_allclose(results[name], plain[name], rtol=2e-5, atol=1e-6)


def test_readers_see_whole_values(stitched: Run, plain: dict[str, Any]) -> None:
    results = json.loads(stitched.stdout)
    assert stitched.stitched("readers_graph") > 0
    assert (results["split"], results["backwards"]) == (0, 0)
    assert results["kept"] == [True] * 3
    assert results["last"] == plain["last"] == 120


def test_no_update_is_lost(stitched: Run, plain: dict[str, Any]) -> None:
    assert stitched.stitched("writers_graph") > 0
    assert json.loads(stitched.stdout)["added"] == plain["added"] == [400, 800]


def test_checkpoints_hold_and_bring_back_results(stitched: Run, plain: dict[str, Any]) -> None:
    results = json.loads(stitched.stdout)
    assert stitched.stitched("checkpoint_graph") > 0
    assert results["restored"]
    assert results["goes_on"]
    np.testing.assert_allclose(results["checkpoint"], plain["checkpoint"], rtol=1e-5, atol=1e-6)


def test_variables_that_are_overwritten_before_they_are_read(forked: Runner) -> None:
    """A region holds them; where one has no value yet, TensorFlow's nodes give it one, once."""
    plain, done = (forked(OVERWRITTEN, stitch=stitch, TF_STITCH_GUARD="0", **PRECISE) for stitch in ("", "1"))
    assert plain.returncode == done.returncode == 0, plain.stderr[-3000:] + done.stderr[-3000:]
    wanted, results = (json.loads(run.stdout) for run in (plain, done))
    for name, value in wanted.items():
        np.testing.assert_allclose(results[name], value, rtol=2e-5, atol=1e-6)
    assert done.report is not None
    assert done.stitched("adafactor_graph") > 100
    assert done.stitched("first_graph") >= 3
    fallbacks = done.report["fallbacks"]
    assert {entry["reason"] for entry in fallbacks} == {"a variable has no value yet"}
    assert sum(entry["count"] for entry in fallbacks) == 1
