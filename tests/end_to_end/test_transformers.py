"""Transformers of Keras train and answer as TensorFlow has them do."""

from __future__ import annotations

import json

import pytest

from tests.end_to_end.conftest import PROGRAMS, Runner

PROGRAM = PROGRAMS / "transformers.py"
NAMES = ("Llama", "T5", "MoE")
"""The others are made of what these are made of, and of what the papers' models are made of."""


def test_losses_and_outputs(forked: Runner) -> None:
    plain, stitched = (forked(PROGRAM, *NAMES, stitch=stitch, CUDA_VISIBLE_DEVICES="-1", TF_STITCH_GUARD="0")
                       for stitch in ("", "1"))
    assert (plain.returncode, stitched.returncode) == (0, 0), stitched.stderr[-3000:]
    want, got = (json.loads(done.stdout.splitlines()[-1]) for done in (plain, stitched))
    for name in NAMES:
        assert got[name] == pytest.approx(want[name], rel=1e-4)
    assert stitched.report is not None
    assert len(stitched.report["regions"]) > 1
    assert not stitched.report["fallbacks"]
