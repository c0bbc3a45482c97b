"""The training scripts give the losses of plain TensorFlow, by native regions alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.conftest import SCRIPTS, Runner
from tests.support.tiers import each_commit, of_today
from tools.compare_runs import TOLERANCES, worst_difference

ARGUMENTS = {
    "digits_encoder": ["--batch", 16, "--width", 32],
    "word2vec_v1": [],
    "char_model": ["--batch", 16, "--length", 48, "--width", 32],
}


def test_all_scripts_are_here() -> None:
    programs = {path.stem for path in SCRIPTS.glob("*.py") if "__main__" in path.read_text()}
    assert programs == ARGUMENTS.keys()


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_never_mentions_tf_stitch(path: Path) -> None:
    assert "stitch" not in path.read_text().lower()


@pytest.mark.of_today
@pytest.mark.parametrize("name", each_commit(of_today([*ARGUMENTS], 1), ARGUMENTS))
def test_same_losses(name: str, forked: Runner, tmp_path: Path) -> None:
    """Of one each day."""
    losses = {}
    for stitch in ("", "1"):
        out = tmp_path / f"losses{stitch}.json"
        done = forked(SCRIPTS / f"{name}.py", "--steps", 50, *ARGUMENTS[name], "--out", out, stitch=stitch)
        assert done.returncode == 0, done.stderr[-3000:]
        losses[stitch] = json.loads(out.read_text())["losses"]
    for steps, tolerance in TOLERANCES:
        assert worst_difference(losses[""][:steps], losses["1"][:steps]) <= tolerance
    assert losses[""][0] > losses[""][-1] or name == "word2vec_v1"
    report = done.report
    assert report is not None
    assert report["regions"]
    assert report["kernels"]
    assert report["fallbacks"] == []
    for solver in (build["solver"] for build in report["builds"] if build["solver"]):
        assert solver["status"] == "optimal" or solver["gap"] < 0.05
        assert solver["kernels"] <= solver["greedy_kernels"]
    assert {region["wrap"] for region in report["regions"]} == {"native"}
    assert sum(region["runs"] for region in report["regions"]) >= 50
    assert sum(region["fallbacks"] for region in report["regions"]) == 0
