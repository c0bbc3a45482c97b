"""Loops over empty tensors, and loops that end at once, work where TensorFlow's do."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.end_to_end.conftest import PROGRAMS, Plain, Runner
from tests.support.tiers import each_commit, of_today

PROGRAM = PROGRAMS / "empty_loops.py"
ON_A_CPU = {"CUDA_VISIBLE_DEVICES": "-1"}
MODES: dict[str, tuple[list[str], dict[str, str]]] = {
    "as ops": ([], {}),
    "unrolled or folded": ([], {"TF_STITCH_UNROLL": "1"}),
    "left alone": ([], {"TF_STITCH_UNROLL": "0", "TF_STITCH_LOOP_OP": "0", "TF_STITCH_MIN_REGION": "1"}),
    "split, strict": (["split"], {"TF_STITCH": "strict", "TF_STITCH_MIN_REGION": "1"}),
    "in Python": ([], {"TF_STITCH_WRAP": "py_function", "TF_STITCH_MIN_REGION": "1"}),
}
"""What becomes of loops: the program's arguments, and the environment. Split loops run where nothing may fall back."""


@pytest.fixture(scope="module")
def plain(tensorflow: Plain) -> dict[str, Any]:
    results: dict[str, Any] = json.loads(tensorflow(PROGRAM, 1, **ON_A_CPU))
    return {key: outcome for key, outcome in results.items() if not isinstance(outcome, str)}


@pytest.mark.of_today
@pytest.mark.parametrize("mode", each_commit(of_today(["as ops", "split, strict"], 1), MODES))
def test_what_tensorflow_can(mode: str, forked: Runner, plain: dict[str, Any]) -> None:
    arguments, environment = MODES[mode]
    done = forked(PROGRAM, 1, *arguments, **environment, **ON_A_CPU)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("a tensor has no elements") <= 1
    assert len(plain) > 600  # what TensorFlow raises for is not asked for
    results = json.loads(done.stdout)
    wrong = [f"{key}: {results[key]}" for key, wanted in plain.items() if not _equal(results[key], wanted)]
    assert not wrong, f"{len(wrong)} of {len(plain)}, first: {wrong[0][:2000]}"


def _equal(got: Any, wanted: list[Any]) -> bool:
    """Whether results have the same shapes and, but for rounding, values."""
    return not isinstance(got, str) and len(got) == len(wanted) and all(
        shape == like and np.allclose(np.array(x, float), np.array(y, float), rtol=1e-3, atol=1e-4, equal_nan=True)
        for (shape, x), (like, y) in zip(got, wanted, strict=True))
