"""Loops that run as one op give what TensorFlow gives."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.end_to_end.conftest import PRECISE, PROGRAMS, Plain, Run, Runner
from tests.graph.loops.loop_functions import cases
from tests.support.tiers import each_commit

PROGRAM = PROGRAMS / "loops.py"
ON_A_CPU = {"CUDA_VISIBLE_DEVICES": "-1"}


@pytest.fixture(scope="module")
def plain(tensorflow: Plain) -> dict[str, Any]:
    results: dict[str, Any] = json.loads(tensorflow(PROGRAM, 1, **ON_A_CPU))
    return results


@pytest.fixture(scope="module", params=each_commit(["check", "split"], ["check", "no check", "split"]))
def stitched(request: pytest.FixtureRequest, forked: Runner) -> Run:
    check = request.param == "check"  # with it each loop runs as itself, too, from the 20th call on
    done = forked(PROGRAM, 30 if check else 2, request.param, TF_STITCH_GUARD=str(int(check)), **ON_A_CPU)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_results(stitched: Run, plain: dict[str, Any]) -> None:
    check_results(stitched, plain)


def check_results(done: Run, plain: dict[str, Any]) -> None:
    results = json.loads(done.stdout)
    assert results.keys() == plain.keys()
    for name, wanted in plain.items():
        for got, value in zip(tf.nest.flatten(results[name]), tf.nest.flatten(wanted), strict=True):
            if isinstance(value, str):
                assert got == value
            else:
                np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_they_ran_as_ops(stitched: Run) -> None:
    assert stitched.report is not None
    regions = {region["id"]: region for region in stitched.report["regions"]}
    ran = [loop for graph in stitched.report["graphs"] for loop in graph["loops"] if loop["regions"]]
    assert len(ran) == sum(case.ops for case in cases().values()) + 5  # two of a session, two of lengths, out of range
    assert all(regions[loop["regions"][0]]["runs"] for loop in ran[:-1])
    bodies = [regions[loop["regions"][1]]["runs"] for loop in ran]
    assert max(bodies) > 2 * max(regions[loop["regions"][0]]["runs"] for loop in ran)


def test_what_fell_back(stitched: Run) -> None:
    """A row that is not there, and nothing else."""
    assert stitched.report is not None
    reasons = {fallback["reason"] for fallback in stitched.report["fallbacks"]}
    assert reasons == {"a loop reads a row that is not there"}


@pytest.mark.gpu
@pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")
@pytest.mark.parametrize("check", ["0", "1"])
def test_on_a_gpu(forked: Runner, check: str) -> None:
    """All of them, split; with the profitability check as TensorFlow's nodes, too."""
    plain = forked(PROGRAM, 1, stitch="", **PRECISE)
    assert plain.returncode == 0, plain.stderr[-3000:]
    done = forked(PROGRAM, 30 if check == "1" else 6, TF_STITCH_GUARD=check, TF_STITCH_UNROLL="0", **PRECISE)
    assert done.returncode == 0, done.stderr[-3000:]
    check_results(done, json.loads(plain.stdout))
    test_they_ran_as_ops(done)
    test_what_fell_back(done)
