"""What was kept for functions and models is given back when the program drops them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import PROGRAMS, Run, Runner

FUNCTIONS = PROGRAMS / "dropped_functions.py"
MODELS = PROGRAMS / "dropped_models.py"
FIRST, COUNT = 12, 24
AGAIN = PROGRAMS / "made_again.py"
MORE = 10.0
"""kB that a dropped function may cost beside what it costs TensorFlow."""
PAGES = 60.0
"""As MORE, of whole pages: how much of them is in use differs that much from run to run. Everything kept was 200."""


def measured(done: Run) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr[-3000:]
    values: dict[str, Any] = json.loads(done.stdout)
    return values


def test_a_folded_region_does_not_end_its_graph(forked: Runner, cache: Path) -> None:
    """The kernels with which TensorFlow folds constants are gone before the graph's own are made."""
    program = PROGRAMS / "folded_region.py"
    plain = forked(program, stitch="")
    done = forked(program, TF_STITCH_CACHE=str(cache))
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == pytest.approx(json.loads(plain.stdout), rel=1e-5)
    assert done.reasons() == ""
    assert done.report is not None
    assert len(done.report["regions"]) > 1, "else none is folded"


@pytest.mark.timeout(900)
def test_functions_that_are_dropped_leave_nothing(run: Runner, forked: Runner, cache: Path) -> None:
    """They share nothing: of each the sizes and constants differ."""
    plain = measured(run(FUNCTIONS, FIRST, COUNT, stitch=""))
    options = {"TF_STITCH_CACHE": str(cache), "TF_STITCH_REPORT": ""}
    done = run(FUNCTIONS, FIRST, COUNT, **options)
    stitched, traced = measured(done), measured(forked(FUNCTIONS, FIRST, COUNT, "trace", **options))
    print(f"kB each: {plain} in TensorFlow, {stitched} stitched, {traced['python']} of Python's")
    assert f"{FIRST + COUNT} regions, {2 * (FIRST + COUNT)} kernels" in done.said()
    assert stitched["malloc"] <= plain["malloc"] + MORE
    assert traced["python"] <= MORE
    assert stitched["resident"] <= plain["resident"] + PAGES


def test_models_that_are_dropped_leave_nothing(forked: Runner) -> None:
    done = forked(MODELS, 1, 2)
    assert done.report is not None
    assert len(done.report["regions"]) >= 6
    assert measured(done)["regions"] == 0


def test_kernels_that_are_made_again_have_regions(forked: Runner) -> None:
    """TensorFlow makes none of a graph whose regions have ended: it offers the graph anew."""
    done = forked(AGAIN)
    assert done.report is not None
    assert done.report["fallbacks"] == []
    found = measured(done)
    assert found["different"] == []
    assert found["regions"] < len(done.report["regions"]), "some have to end before kernels are made again"
