"""Networks of models/language.py, models/vision.py and models/kinds train and answer as TensorFlow has them do, in
float32 and in halves. They run on a GPU where TensorFlow sees one, by the same command."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from models import kinds, language, vision
from tests.end_to_end.conftest import PROGRAMS, Plain, Runner
from tests.support.tiers import each_commit, of_today
from tests.support.zoo_case import runs_of

PROGRAM = PROGRAMS / "networks.py"
PRECISE = {"NVIDIA_TF32_OVERRIDE": "0"}
FLOAT32 = {"outputs": 1e-5, "losses": 2e-5, "moved": 2e-2}
HALVES = {"outputs": 3e-2, "losses": 3e-3, "moved": 3e-2}
"""Of outputs and of how far weights move as a share of the largest. A region rounds to half types where it hands on a
value, TensorFlow after every op."""
OF_FEW = {"outputs": 3e-2, "losses": 5e-2, "moved": 0.5}
"""In halves, where batch norms see few numbers: TensorFlow with and without oneDNN is 0.003 and 0.18 apart (MobileNetV3
in bfloat16)."""
OF_FIFTY_LAYERS = {**OF_FEW, "losses": 1e-1}
"""Of ResNet50, whose loss is 3.676 in float32, in bfloat16 3.871 in TensorFlow and 3.563 in regions."""


@dataclass(frozen=True)
class Case:
    """Networks of one process, and their policy of element types."""

    names: tuple[str, ...]
    policy: str

    def __str__(self) -> str:
        return f"{'-'.join(self.names)}-{self.policy}"


KINDS = ("SpectralGAN", "LoRA", "TabNet")
"""That are run first: with branches, variables that are overwritten unread, and sorted rows."""
FIRST = [*(Case((name,), "float32") for name in ("Llama", "T5", "UNet", "MoE", "MobileNetV3Large", *KINDS)),
         *(Case((name,), "mixed_bfloat16") for name in ("GPT2", "ViT"))]
"""Two of these each day, all within five."""
HALVED = ("Swin", "DeepLab", "DiT", "SpectralGAN", "Conformer", "WaveNet", "LoRA", "TabNet", "GraphNet", "Diffusion",
          "UNet3D", "Performer", "Perceiver", "Mixer", "MaskedLanguage")
"""Of models/kinds that are trained in halves, too."""
SLOW = ("Diffusion",)
"""Each in a process of its own: TensorFlow builds its step of 25,000 ops for a minute."""


def of_six(names: tuple[str, ...], policy: str) -> list[Case]:
    """Cases of six networks of a kind at most."""
    quick = [name for name in names if name not in SLOW]
    return [*(Case(tuple(quick[i:i + 6]), policy) for i in range(0, len(quick), 6)),
            *(Case((name,), policy) for name in names if name in SLOW)]


CASES = [*FIRST, Case(("GPT2", "BERT", "ViT"), "float32"), Case(("BERT",), "mixed_float16"),
         *of_six(tuple(name for name in kinds.NAMES if name not in KINDS), "float32"),
         *of_six(HALVED, "mixed_bfloat16"),
         *(case for name in vision.NAMES for policy in ("float32", "mixed_bfloat16")
           if (case := Case((name,), policy)) not in FIRST)]


AFTER_STEPS = {**FLOAT32, "losses": 5e-5}
"""Of PointNet in float32: maxima of points, whose first loss is 3e-7 off. TensorFlow with and without oneDNN is 2e-7
apart before a step and 1.1e-5 after one."""


def tolerances(name: str, policy: str) -> dict[str, float]:
    if policy == "float32":
        return AFTER_STEPS if name == "PointNet" else FLOAT32
    if name == "ResNet50":
        return OF_FIFTY_LAYERS
    return HALVES if name in (*language.NAMES, "UNet", "ConvNeXtTiny") else OF_FEW


def results(text: str | bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found


@pytest.mark.of_today
@pytest.mark.parametrize("case", each_commit(of_today(FIRST, 2), CASES), ids=str)
@pytest.mark.timeout(900)
def test_losses_and_outputs(case: Case, forked: Runner, tensorflow: Plain) -> None:
    with ThreadPoolExecutor() as both:  # each is mostly one core's work
        plain = both.submit(tensorflow, PROGRAM, case.policy, *case.names, **PRECISE)
        done = forked(PROGRAM, case.policy, *case.names, **PRECISE, TF_STITCH_GUARD="0")
    assert done.returncode == 0, done.stderr[-3000:]
    wanted, found = results(plain.result()), results(done.stdout)
    for name in case.names:
        allowed = tolerances(name, case.policy)
        for what in wanted[name]:
            want, got = (np.array(one[name][what]) for one in (wanted, found))
            assert np.isfinite(want).all()
            off = np.abs(got - want) / np.maximum(1e-9, np.abs(want) if what == "losses" else np.abs(want).max())
            assert (off <= allowed[what]).all(), f"{what} of {name}: {off}"
    assert done.report is not None
    assert len(done.report["regions"]) >= len(case.names)
    assert runs_of(done.report) >= 2 * len(case.names)
    assert done.report["fallbacks"] == []


def test_every_network_is_here() -> None:
    """In float32; those of images, GPT-2, BERT, ViT and those of HALVED in halves, too."""
    whole, halves = ({name for case in CASES if (case.policy == "float32") is of_whole for name in case.names}
                     for of_whole in (True, False))
    assert whole == {*language.NAMES, *vision.NAMES, *kinds.NAMES}
    assert halves == {*vision.NAMES, *HALVED, "GPT2", "BERT", "ViT"}
