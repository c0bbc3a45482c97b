"""Which programs reach the graph hook, and what happens when a rewrite goes wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tf_stitch.plugin import graph_hook

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    program = "tests.plugin.hook_program"
    run = subprocess.run([sys.executable, "-m", program], cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert run.returncode == 0, run.stderr[-3000:]
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("case", ["function", "train", "while", "session", "data", "loop"])
def test_reaches_the_hook(report: dict[str, Any], case: str) -> None:
    assert report["calls"][case] > 0
    assert report["ops"][case]["Tanh"] > 0


def test_keras_fit_is_one_graph(report: dict[str, Any]) -> None:
    # The remapper has made _FusedMatMul of the forward Tanh; its gradient and Adam are there.
    assert {"TanhGrad", "AssignAddVariableOp", "Sqrt"} <= report["ops"]["keras"].keys()


@pytest.mark.parametrize("case", ["jit", "suspended"])
def test_stays_away(report: dict[str, Any], case: str) -> None:
    assert report["ops"].get(case, {}).get("Tanh", 0) == 0


def test_train_step_is_one_graph(report: dict[str, Any]) -> None:
    assert {"TanhGrad", "AssignSubVariableOp"} <= report["ops"]["train"].keys()


def test_input_pipelines_are_marked(report: dict[str, Any]) -> None:
    assert report["tf_data"]["data"] == [True]
    assert report["tf_data"]["loop"] == [False]
    assert report["tf_data"]["train"] == [False]


def test_output_types(report: dict[str, Any]) -> None:
    [[dtype, dims]] = report["types"]["function"]
    assert dtype == 1
    assert dims[0] < 0
    assert dims[1] == 8
    [[_, dims]] = report["types"]["session"]
    assert dims[1] == 8
    assert "after its callback" in report["late"]


def test_mistakes_leave_the_graph_alone(report: dict[str, Any]) -> None:
    assert report["raise_is_tf"]
    assert report["dangle_is_tf"]
    assert "a bug in the rewriter" in report["errors"][0]
    assert any("'nowhere' does not exist" in error for error in report["errors"])


def test_a_rewrite_is_run(report: dict[str, Any]) -> None:
    assert not report["double_is_tf"]
    assert report["double_is_abs"]


def test_ctrl_c_before_the_graph_is_looked_at_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """ctypes prints what leaves a callback, and goes on: a loop without an end then had no end."""
    def pressed() -> bool:
        raise KeyboardInterrupt

    hook, errors = object.__new__(graph_hook._Hook), list[Exception]()
    hook.on_error = errors.append  # type: ignore[assignment]
    monkeypatch.setattr(graph_hook, "is_on_here", pressed)
    assert hook._on_graph(0, 0, 0, b"graph", b"", b"CPU", 0) == 2
    assert [type(error).__name__ for error in errors] == ["StitchError"]
