"""A process with two GPUs: replicas, a model over both, and a function that threads call on each."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.end_to_end.conftest import PRECISE, PROGRAMS, Run, Runner
from tf_stitch.graph.passes.all_reduces import IN_STREAMS

pytestmark = [pytest.mark.gpu,
              pytest.mark.skipif(len(tf.config.list_physical_devices("GPU")) < 2, reason="fewer than two GPUs")]


def sums_in_streams(done: Run) -> int:
    assert done.report is not None
    return sum(graph["left_out"].get(IN_STREAMS, 0) for graph in done.report["graphs"])


@pytest.mark.parametrize("sums", ["copies", "nccl"])
def test_two_gpus(run: Runner, sums: str) -> None:
    program = PROGRAMS / "several_gpus.py"
    plain = run(program, stitch="", **PRECISE)
    done = run(program, sums, stitch="strict", TF_STITCH_GUARD="0", **PRECISE)
    assert plain.returncode == 0, plain.stderr[-3000:]
    assert done.returncode == 0, done.stderr[-3000:]
    want, found = json.loads(plain.stdout.splitlines()[-1]), json.loads(done.stdout.splitlines()[-1])
    assert found["replicas"] == 2
    assert found["replicas_agree"]
    assert found["buckets_agree"]
    assert sums_in_streams(done) >= 2 * (1 + 2), "two GPUs: a sum of the small model, buckets of the other one"
    for name in ("losses", "predicted", "bucket_losses"):
        np.testing.assert_allclose(found[name], want[name], rtol=2e-3, atol=1e-5, err_msg=name)
    for name in ("halves", "on_each"):
        np.testing.assert_allclose(found[name], want[name], rtol=1e-4, atol=1e-6, err_msg=name)
    for graph in ("halves_graph", "shared_graph"):
        assert done.stitched(graph) > 0, done.report
