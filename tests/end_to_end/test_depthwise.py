"""Depthwise convolutions on a CPU are in regions, for any number of images, and give what TensorFlow's give."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.end_to_end.conftest import PROGRAMS, Run, Runner

pytestmark = pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="is about CPUs")

PROGRAM = PROGRAMS / "depthwise.py"
OP = "DepthwiseConv2dNative"
EPSILON = {"float64": 1e-12, "train": 1e-4}


def results(done: Run) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_results_are_tensorflows(forked: Runner) -> None:
    wanted, done = results(forked(PROGRAM, 4, stitch="")), forked(PROGRAM, 4)
    found = results(done)
    assert found.keys() == wanted.keys()
    for case, rows in wanted.items():
        epsilon = EPSILON.get(case, 2e-5)
        for got, want in zip(found[case], rows, strict=True):
            np.testing.assert_allclose(got, want, epsilon, epsilon, err_msg=case)
    assert done.report is not None
    assert done.report["fallbacks"] == []
    nodes = [node for graph in done.report["graphs"] for node in graph["nodes"] if node["op"] == OP]
    assert len(nodes) >= 15
    [outside] = {node["reason"] for node in nodes if node["region"] is None}  # two filters a channel
    assert "one filter a channel" in outside
