"""Values go from one GPU to another behind what both have been given, and nobody waits for them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.native.conftest import Regions

GPUS = tf.config.list_physical_devices("GPU")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="no GPU")]
SEVERAL = pytest.mark.skipif(len(GPUS) < 2, reason="one GPU")


@pytest.mark.parametrize("there", [0, pytest.param(1, marks=SEVERAL)])
@pytest.mark.parametrize("shape", [(), (3, 1 << 20), (0, 4)], ids=str)
def test_what_arrives(regions: Regions, shape: tuple[int, ...], there: int) -> None:
    ops = regions.library.raw_ops

    @tf.function(autograph=False)
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.device("/GPU:0"):
            sent = ops.stitch_peer_send(input=x * 2.0)
        with tf.device(f"/GPU:{there}"):
            return ops.stitch_peer_receive(sent=sent, T=tf.float32) + 1.0

    values = np.random.default_rng(0).integers(0, 1000, shape).astype(np.float32)
    for i in range(8):
        with tf.device("/GPU:0"):
            x = tf.constant(values) + float(i)
        np.testing.assert_array_equal(step(x), values * 2 + (2 * i + 1))


def test_what_nobody_has_sent(regions: Regions) -> None:
    with tf.device("/GPU:0"), pytest.raises(tf.errors.InvalidArgumentError, match="no StitchPeerSend has sent"):
        regions.library.raw_ops.stitch_peer_receive(sent=tf.raw_ops.OptionalNone(), T=tf.float32)
