"""Batch norms and their gradients, stitched together, apart, and one without the other, against TensorFlow's."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.end_to_end.conftest import PROGRAMS, Run, Runner
from tests.end_to_end.programs.batch_norm import EXACT

PROGRAM = PROGRAMS / "batch_norm.py"
WITH_THE_GUARD = 40
"""Calls until the profitability check has timed both forms."""
EPSILON = {"float32": 1e-5, "float16": 1e-3, "bfloat16": 8e-3}
NORM, GRADIENT = "FusedBatchNormV3", "FusedBatchNormGradV3"


@pytest.fixture(scope="module")
def wanted(forked: Runner) -> dict[str, list[list[float]]]:
    done = forked(PROGRAM, 1, stitch="")
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[list[float]]] = json.loads(done.stdout.splitlines()[-1])
    return found


def check(done: Run, wanted: dict[str, list[list[float]]]) -> None:
    """Within rounding of TensorFlow's; in half types within TensorFlow's own error (ours rounds less often)."""
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.keys() == wanted.keys()
    for case, results in wanted.items():
        exact = wanted.get(case + EXACT, results)
        dtype = next((d for d in EPSILON if f" {d} " in case and EXACT not in case), "float32")
        for got, theirs, right in zip(found[case], results, exact, strict=True):
            scale = np.max(np.abs(right), initial=0)
            allowed = 2 * EPSILON[dtype] * scale + 2 * np.max(np.abs(np.subtract(theirs, right)), initial=0)
            np.testing.assert_allclose(got, right, 0, allowed, err_msg=case) if np.isfinite(allowed) else \
                np.testing.assert_array_equal(got, theirs, err_msg=case)


def stitched(done: Run) -> dict[str, int]:
    """How many norms, and gradients of norms, are in regions."""
    assert done.report is not None
    return {op: sum(node["op"] == op and node["region"] is not None for graph in done.report["graphs"]
                    for node in graph["nodes"]) for op in (NORM, GRADIENT)}  # fmt: skip


def test_same_results_in_both_forms(forked: Runner, wanted: dict[str, list[list[float]]]) -> None:
    done = forked(PROGRAM, WITH_THE_GUARD)
    check(done, wanted)
    on_gpu = bool(tf.config.list_physical_devices("GPU"))
    graphs = len({case for case in wanted if "gradient" in case})
    split_across_regions = 1 if on_gpu else 0  # the pooled one in training
    assert stitched(done)[GRADIENT] >= graphs - split_across_regions
    assert stitched(done)[NORM] >= len(wanted) - 2 - split_across_regions  # three numbers of rows are one graph
    assert done.report is not None
    assert done.report["fallbacks"] == []


@pytest.mark.parametrize("left", [NORM, GRADIENT])
def test_one_without_the_other(left: str, forked: Runner, wanted: dict[str, list[list[float]]]) -> None:
    """TensorFlow's gradient reads what our norm saves, and the other way round."""
    done = forked(PROGRAM, WITH_THE_GUARD, TF_STITCH_SKIP="norm" if left == NORM else f"*{left}")
    check(done, wanted)
    found = stitched(done)
    assert found[left] == 0
    assert found[({NORM, GRADIENT} - {left}).pop()] > 0
