"""Every model of the zoo trains 20 steps and infers, with and without TF_STITCH=1: same losses, same outputs.

They run on a GPU where TensorFlow sees one, by the same command.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.program import signature
from models.zoo import ASTITCH, NAMES, load
from tests.end_to_end.conftest import ROOT, Run, Runner

STEPS = 20
SCRIPTS = sorted((ROOT / "models").glob("*.py"))
MODULE = Path("-m")


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


CASES = [
    *(Case(model) for model in NAMES),
    *(Case(model, style="tf1") for model in NAMES if "tf1" in load(model).styles),
    *(Case(model, unroll=True) for model in ("dyn-rnn", "nmt")),  # loops of known length, and of one that is a size
    # A region rounds to half precision where it hands on a value, TensorFlow after every op.
    Case("bert", dtype="mixed_float16", losses=5e-3, outputs=3e-2),
    Case("bert", dtype="mixed_bfloat16", losses=5e-3, outputs=3e-2),
    Case("transformer", dtype="mixed_float16", losses=5e-3, outputs=3e-2),
    Case("transformer", dtype="mixed_bfloat16", losses=5e-3, outputs=3e-2),
    Case("dien", dtype="mixed_float16", losses=2e-3, outputs=1e-2),
    Case("dien", dtype="mixed_bfloat16", losses=5e-3, outputs=3e-2),
]

KNOWN_FALLBACKS: dict[str, dict[str, str]] = {}
"""Model -> part of a fallback's reason -> why it is so. Fallbacks that are not listed fail the test."""


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.timeout(900)
def test_same_losses_and_outputs(case: Case, run: Runner, tmp_path: Path) -> None:
    def start(stitch: str) -> tuple[Run, Any]:
        out = tmp_path / f"results{stitch}.npz"
        done = run(MODULE, f"models.{case.model.replace('-', '_')}", "--steps", STEPS, "--style", case.style, "--dtype",
                   case.dtype, "--out", out, stitch=stitch, NVIDIA_TF32_OVERRIDE="0",
                   TF_STITCH_UNROLL="1" if case.unroll else "auto")  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return done, np.load(out)

    with ThreadPoolExecutor() as both:  # each is mostly one core's work
        (_, plain), (done, stitched) = both.map(start, ("", "1"))

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
    assert sum(region["runs"] for region in report["regions"]) >= STEPS
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


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_never_mentions_tf_stitch(path: Path) -> None:
    text = path.read_text().lower().replace("fusionstitching", "").replace("fusion_stitching", "")
    assert "stitch" not in text.replace("astitch", "")


def test_every_file_is_in_the_zoo() -> None:
    scripts = {path.stem for path in SCRIPTS if "__main__" in path.read_text()}
    assert scripts == {name.replace("-", "_") for name in NAMES}
    assert len(NAMES) == 15


@pytest.mark.parametrize("name", NAMES)
def test_has_a_row_of_the_papers(name: str) -> None:
    model = load(name)
    assert model.name == name
    assert set(model.configs) >= {"small", "paper"}
    assert model.modes in (("train",), ("infer",), ("train", "infer"))


def test_batches_of_the_paper() -> None:
    """AStitch, Table 2."""
    bert, transformer, dien = (load(name).configs["paper"] for name in ("bert", "transformer", "dien"))
    assert (bert.train_batch, bert.infer_batch) == (12, 200)
    assert transformer.tokens == 4096
    assert dien.batch == 256
    for name in ("crnn", "asr", "transformer"):
        model = load(name)
        [rows] = {value.shape[0] for batch in data(name).infer for value in batch.values()}
        assert rows == 1, name
        assert "infer" in model.modes


VARIABLE = {"crnn", "asr", "transformer", "dien", "nmt", "multi-interests", "rokid", "aiwriter"}
"""Models whose inputs vary in length from batch to batch."""


def data(name: str):
    model = load(name)
    return model.data(model.configs["small"], np.random.default_rng(0))


@pytest.mark.parametrize("name", NAMES)
def test_lengths_vary_where_the_original_has_them_vary(name: str) -> None:
    for batches in (data(name).train, data(name).infer):
        unknown = any(None in spec.shape.as_list() for spec in signature(batches).values())
        assert unknown == (name in VARIABLE)


def test_data_is_the_same_every_time() -> None:
    for first, second in zip(data("dien").train, data("dien").train, strict=True):
        assert all(np.array_equal(first[name], second[name]) for name in first)


def test_mixed_precision_is_where_the_paper_has_it() -> None:
    mixed = {name for name in NAMES if "mixed_float16" in load(name).dtypes}
    assert mixed == {"bert", "transformer", "dien"} < set(ASTITCH)
