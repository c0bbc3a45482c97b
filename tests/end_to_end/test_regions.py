"""Regions that hold matmuls: whole train steps become one op, with TensorFlow's results."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.end_to_end.conftest import PROGRAMS, Run, Runner

PROGRAM = PROGRAMS / "dense_models.py"


def results(done: Run) -> dict[str, dict[str, Any]]:
    assert done.returncode == 0, done.stderr[-3000:]
    return {r["name"]: r for r in json.loads(done.stdout.splitlines()[-1])}


@pytest.fixture(scope="module")
def runs(forked: Runner) -> tuple[Run, Run]:
    return forked(PROGRAM, stitch=""), forked(PROGRAM, stitch="1", TF_STITCH_SCOPE="region")


@pytest.mark.parametrize("name", ["encoder", "mlp", "mixed", "loop", "lengths"])
def test_same_results(runs: tuple[Run, Run], name: str) -> None:
    want, got = (results(one)[name] for one in runs)
    tolerance = 2e-3 if name == "mixed" else 2e-4
    for key in set(want) - {"name"}:
        # The bias of a key changes no softmax: its gradient is rounding alone, which Adam blows up.
        np.testing.assert_allclose(got[key], want[key], rtol=tolerance, atol=1e-4, err_msg=key)


def test_a_train_step_is_one_region(runs: tuple[Run, Run]) -> None:
    report = runs[1].report
    assert report is not None
    assert report["fallbacks"] == []
    steps = [g for g in report["graphs"] if "inference_step" in g["graph"] and g["stitched_nodes"]]
    assert len(steps) >= 2
    for graph in steps:
        assert len(graph["regions"]) == 1
        idle = ("_Arg", "_Retval", "NoOp", "Const", "Identity", "StitchHandle")
        outside = [n for n in graph["nodes"] if n["region"] is None and n["op"] not in idle
                   and not (n["reason"] or "").startswith(("shape arithmetic", "costs nothing"))]
        assert outside == []


def test_matmuls_are_in_the_report(runs: tuple[Run, Run]) -> None:
    report = runs[1].report
    assert report is not None
    matmuls = [k for k in report["kernels"] if k["rule"] == "library"]
    assert matmuls
    assert all(k["nodes"] for k in matmuls)


def test_calls_take_over_what_follows_their_matmuls(runs: tuple[Run, Run]) -> None:
    report = runs[1].report
    assert report is not None
    taken = [k for k in report["kernels"] if "library epilogue" in k["schemes"]]
    assert any(k["symbol"].endswith("+ bias relu") for k in taken)
    for k in taken:
        assert k["rule"] == "library"
        assert set(k["node_schemes"]) <= set(k["nodes"])
        assert {edge["user"] for edge in k["edges"]} == set(k["node_schemes"])
        assert k["pattern"] is not None


@pytest.mark.parametrize("wrap", ["native", "py_function"])
def test_sizes_that_were_taken_to_be_equal_and_differ(forked: Runner, wrap: str) -> None:
    """An input that only shows a size is read by none of the nodes that run instead."""
    program = PROGRAMS / "sizes_that_differ.py"
    plain, done = forked(program, stitch=""), forked(program, TF_STITCH_WRAP=wrap)
    assert done.returncode == 0, done.stderr[-3000:]
    for got, want in zip(json.loads(done.stdout), json.loads(plain.stdout), strict=True):
        assert got == pytest.approx(want, rel=1e-5)
    assert "assumed equal" in done.reasons()
