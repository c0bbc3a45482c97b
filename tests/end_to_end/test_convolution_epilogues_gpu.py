"""Residual blocks on a GPU whose convolutions and matmuls compute what follows them, against TensorFlow in float64, and
against what TensorFlow itself is off by. Each case is a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from tests.end_to_end.test_gpu import run

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")]

LARGE = (16, 56, 64)
"""Images whose batch norms take longer as kernels than their scales in filters do."""
ALONE = {"TF_STITCH_GUARD": "0", "TF_STITCH_SCOPE": "region"}
BLOCKS = """
import numpy as np, tensorflow as tf
tf.config.experimental.enable_tensor_float_32_execution(TF32)
if REPEATABLE:
    tf.random.set_seed(1)
    tf.config.experimental.enable_op_determinism()
dtype = tf.as_dtype("DTYPE")
random = np.random.default_rng(0)
BATCH, SIZE, CHANNELS = SIZES
WIDE = 4 * CHANNELS
weights = {}
def weight(name, shape, low, high):
    if name not in weights:
        weights[name] = random.uniform(low, high, shape)
    return weights[name]
def convolved(given, name, x, filters, window, stride=1):
    c = x.shape[-1]
    reach = (3 / (window * window * c)) ** 0.5
    filters_of = given(name, (window, window, c, filters), -reach, reach)
    x = tf.nn.conv2d(x, filters_of, stride, "SAME" if stride == 1 else "VALID")
    return tf.nn.bias_add(x, given(name + "b", (filters,), -0.5, 0.5))
def normed(given, name, x):
    if not NORMED:
        return x
    c = x.shape[-1:]
    return tf.nn.batch_normalization(x, given(name + "m", c, -0.5, 0.5), given(name + "v", c, 0.5, 2),
                                     given(name + "o", c, -0.5, 0.5), given(name + "g", c, 0.5, 1.5), 1e-3)
def layer(given, name, x, filters, window, stride=1):
    return normed(given, name, convolved(given, name, x, filters, window, stride))
def network(given, x):
    for block in range(2):
        y = tf.nn.relu(layer(given, f"{block}a", x, CHANNELS, 1))
        y = tf.nn.relu(layer(given, f"{block}b", y, CHANNELS, 3))
        x = tf.nn.relu(layer(given, f"{block}c", y, WIDE, 1) + x)
        y = tf.nn.relu(layer(given, f"{block}d", x, WIDE, 3) + x)
        x = tf.nn.relu(layer(given, f"{block}e", y, WIDE, 1, 2))
    return tf.reduce_mean(x, (1, 2))
image = random.standard_normal((BATCH, SIZE, SIZE, WIDE))
def by_type(of):
    known = {}
    def given(name, shape, low, high):
        if name not in known:
            with tf.init_scope():
                known[name] = tf.Variable(tf.cast(weight(name, shape, low, high), of))
        return known[name]
    return given
rounded = by_type(dtype)
with tf.device("GPU:0"):
    x = tf.cast(image, dtype)
    plain = network(rounded, x)  # op by op
    stitched = tf.function(lambda x: network(rounded, x))
    calls = [stitched(x) for _ in range(8)]  # as a CUDA graph from the fourth
with tf.device("CPU:0"):
    exact = lambda name, *rest: tf.cast(rounded(name, *rest), tf.float64)
    want = network(exact, tf.cast(x, tf.float64)).numpy()
def error(got):
    return float(np.sqrt(np.mean(np.square(tf.cast(got, tf.float64).numpy() - want))))
ours, theirs, largest = max(map(error, calls)), error(plain), np.abs(want).max()
print("errors", ours, theirs, "of", largest)
assert ours <= 1.2 * theirs + 1e-7 * largest, (ours, theirs, largest)
assert not REPEATABLE or len({got.numpy().tobytes() for got in calls}) == 1
"""


@pytest.mark.parametrize(("dtype", "sizes", "tf32", "normed", "repeatable"), [
    ("float32", LARGE, True, True, False), ("float32", LARGE, False, True, False), ("float32", LARGE, True, True, True),
    ("float32", (1, 28, 64), True, False, False), ("float32", (3, 9, 20), True, False, False),
    ("float16", (4, 14, 64), True, False, False), ("bfloat16", (4, 14, 64), True, False, False)])
def test_blocks(tmp_path: Path, dtype: str, sizes: tuple[int, ...], tf32: bool, normed: bool, repeatable: bool) -> None:
    source = BLOCKS.replace("DTYPE", dtype).replace("SIZES", str(sizes)).replace("TF32", str(tf32))
    report = run(source.replace("NORMED", str(normed)).replace("REPEATABLE", str(repeatable)), tmp_path, **ALONE)
    assert not report["fallbacks"]
    calls = [str(kernel["symbol"]) for kernel in report["kernels"] if kernel["rule"] == "library"]
    convolutions = [call for call in calls if call.startswith("convolution")]
    assert any(call.startswith("gemm") and call.endswith("bias + addend relu") for call in calls), calls
    if dtype == "float32" and not tf32:  # no tensor cores
        assert not any("bias" in call for call in convolutions)
        return
    assert any(call.endswith("+ addend + bias relu") for call in convolutions), calls
    others = sum(not call.endswith("+ bias relu") for call in convolutions)
    assert others == 1, "behind the last one is a reduction's kernel"
