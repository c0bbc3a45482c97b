"""A model of the zoo, trained and run with and without TF_STITCH=1: same losses, same outputs."""

from __future__ import annotations

import io
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.zoo import module_of
from tests.end_to_end.conftest import Plain, Runner
from tests.support.fork_server import MODULE
from tests.support.plain_results import OUT

STEPS = 20


@dataclass(frozen=True)
class Case:
    """A model as it is run.

    Attributes:
        losses: largest relative difference of a loss.
        outputs: largest difference of an output, as a share of its largest value. Whole numbers have to be equal.
        unroll: loops are unrolled on CPUs, too.
    """

    model: str
    style: str = "tf2"
    dtype: str = "float32"
    losses: float = 1e-5
    outputs: float = 1e-4
    unroll: bool = False

    def __str__(self) -> str:
        return "-".join([self.model, *([self.style] if self.style != "tf2" else []),
                         *([self.dtype] if self.dtype != "float32" else []),
                         *(["unrolled"] if self.unroll else [])])  # fmt: skip


KNOWN_FALLBACKS: dict[str, dict[str, str]] = {}
"""Model -> part of a fallback's reason -> why it is so. Fallbacks that are not listed fail the test."""


def check_model(case: Case, run: Runner, tensorflow: Plain, tmp_path: Path) -> None:
    command = (module_of(case.model), "--steps", STEPS, "--style", case.style, "--dtype", case.dtype, "--out")
    precise, out = {"NVIDIA_TF32_OVERRIDE": "0"}, tmp_path / "results.npz"
    with ThreadPoolExecutor() as both:  # each is mostly one core's work
        of_tensorflow = both.submit(tensorflow, MODULE, *command, OUT, **precise)
        done = run(MODULE, *command, out, **precise, TF_STITCH_UNROLL="1" if case.unroll else "auto")
    assert done.returncode == 0, done.stderr[-3000:]
    plain, stitched = np.load(io.BytesIO(of_tensorflow.result())), np.load(out)

    assert len(plain["losses"]) == STEPS
    assert np.isfinite(plain["losses"]).all()
    np.testing.assert_allclose(stitched["losses"], plain["losses"], rtol=case.losses, atol=0)
    outputs = [name for name in plain.files if name.startswith("output/")]
    assert outputs
    for name in outputs:
        allowed = case.outputs * np.abs(plain[name]).max() if plain[name].dtype.kind == "f" else 0
        np.testing.assert_allclose(stitched[name], plain[name], rtol=0, atol=allowed, err_msg=name)

    report = done.report
    assert report is not None
    assert report["regions"]
    assert {region["wrap"] for region in report["regions"]} == {"native"}
    assert runs_of(report) >= STEPS
    unrolled = [loop for graph in report["graphs"] for loop in graph["loops"]
                if loop["reason"] is None and not loop["regions"]]
    assert unrolled or not case.unroll
    if case.model == "nmt" and not case.unroll:  # a beam search
        graphs = [{loop["name"]: loop["reason"] for loop in graph["loops"]} for graph in report["graphs"]]
        assert any("while" in loops and not any(loops.values()) for loops in graphs)
    if not any(loop["steps"] is None for loop in unrolled):
        left_out = _sizes_left_out(report)
        for region in report["regions"]:
            assert region["builds"] <= 2 + left_out.pop(region["id"], 0), "two builds serve all lengths"
        assert left_out == {}
    known = KNOWN_FALLBACKS.get(case.model, {})
    assert [f for f in report["fallbacks"] if not any(reason in f["reason"] for reason in known)] == []
    assert known or sum(region["fallbacks"] for region in report["regions"]) == 0


def runs_of(report: Any) -> int:
    """Calls of a report's regions, by kernels or because their fallback subgraphs are preferred."""
    return sum(region["runs"] + region["preferred_fallback_runs"] for region in report["regions"])


def _sizes_left_out(report: Any) -> dict[int, int]:
    """Regions on GPUs -> sizes that there was no time to work out beforehand: each may cost a build when it comes."""
    on_gpu = {region["id"] for region in report["regions"] if "GPU" in region["device"]}
    found = {}
    for remark in report["remarks"]:
        if remark["stage"] == "sizes":
            count = re.fullmatch(r"kernels for (\d+) expected sizes are built when these come", remark["reason"])
            region = int(remark["where"].removeprefix("region "))
            assert count is not None
            assert region in on_gpu
            found[region] = int(count[1])
    return found
