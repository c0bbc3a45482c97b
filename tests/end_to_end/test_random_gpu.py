"""Noise and integers that regions draw on a GPU are those that TensorFlow draws there."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from tests.end_to_end.test_gpu import run

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")]

DRAWN = """
import numpy as np, tensorflow as tf
def drawn(seed):
    noise = tf.random.stateless_normal((300, 7), seed)
    times = tf.random.stateless_uniform((300,), seed + 1, 0, 1000, tf.int32)
    half = tf.random.stateless_normal((64, 3), seed + 2, dtype=tf.float16)
    return noise * 1.0 + 0.0, tf.cast(times, tf.float32) * 2.0, tf.cast(half, tf.float32) * 0.5
with tf.device("GPU:0"):
    stitched = tf.function(drawn)
    for call in range(6):
        seed = tf.constant([call, -9])
        for got, want in zip(stitched(seed), drawn(seed)):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=0, atol=5e-7)
"""


def test_noise_is_drawn_in_regions_as_tensorflow_draws_it(tmp_path: Path) -> None:
    report = run(DRAWN, tmp_path, TF_STITCH_GUARD="0")
    assert report["regions"]
    assert not report["fallbacks"]
    assert not any("random" in reason.lower() for graph in report["graphs"] for reason in graph["left_out"])
