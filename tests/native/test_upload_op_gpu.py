"""StitchUpload on a GPU: what the host has is there, whatever the device still does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from tf_stitch.native.bindings import OpLibrary

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")]


def uploaded(library: OpLibrary, value: tf.Tensor) -> tf.Tensor:
    with tf.device("/GPU:0"):
        return library.raw_ops.stitch_upload(input=value)


@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (3, 1 << 20), ((1 << 24) + 5,)], ids=str)
@pytest.mark.parametrize("dtype", [np.int32, np.float16, np.bool_])
def test_values(library: OpLibrary, shape: tuple[int, ...], dtype: type) -> None:
    """Also of several pieces."""
    value = (np.arange(int(np.prod(shape))).reshape(shape) % 251).astype(dtype)
    with tf.device("/CPU:0"):
        given = tf.constant(value)
    result = uploaded(library, given)
    assert "GPU:0" in result.device
    np.testing.assert_array_equal(result, value)


def test_while_the_device_is_busy(library: OpLibrary) -> None:
    """More calls than there are pieces, each value is gone from the host when the next comes."""
    with tf.device("/GPU:0"):
        busy = tf.constant(np.random.default_rng(0).standard_normal((4096, 4096), np.float32))

    @tf.function
    def run(x: tf.Tensor) -> tf.Tensor:
        with tf.device("/GPU:0"):
            later = tf.reduce_max(busy @ busy @ busy) * 0.0
            return library.raw_ops.stitch_upload(input=x) + tf.cast(later, tf.float32)

    def work(first: int) -> None:
        results = []
        for i in range(first, first + 50):
            with tf.device("/CPU:0"):
                results.append((i, run(tf.fill([1000], float(i)))))
        for i, result in results:
            np.testing.assert_array_equal(result, np.full([1000], float(i)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(0, 400, 100)))
