"""A layer of float8 and its gradients, whose matmuls cuBLASLt computes in float8 on a GPU, against float64. Each case
is a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tensorflow as tf

from tests.end_to_end.test_gpu import run
from tf_stitch.device.spec import FLOAT8_ARCHITECTURE
from tf_stitch.runtime.device_query import compute_capability

GPUS = tf.config.list_physical_devices("GPU")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="no GPU"), pytest.mark.skipif(
    bool(GPUS) and int(compute_capability(0)) < FLOAT8_ARCHITECTURE, reason="no tensor cores for float8")]

STEP = """
import numpy as np, tensorflow as tf
dtype, ROWS, TERMS, COLUMNS = tf.as_dtype("DTYPE"), 4096, 4096, 4096
E4M3 = tf.dtypes.experimental.float8_e4m3fn
def quantised(x, scale):
    return tf.cast(tf.clip_by_value(x / tf.cast(scale, x.dtype), -448, 448), E4M3)
def dequantised(q, scale, of):
    return tf.cast(q, of) * tf.cast(scale, of)
def step(x, w, grad, scales):
    x, w, grad = (dequantised(quantised(v, s), s, dtype) for v, s in zip((x, w, grad), tf.unstack(scales)))
    return tf.matmul(x, w), tf.matmul(grad, w, transpose_b=True), tf.matmul(x, grad, transpose_a=True)
random = np.random.default_rng(0)
shapes = (ROWS, TERMS), (TERMS, COLUMNS), (ROWS, COLUMNS)
given = [tf.cast(random.standard_normal(shape), dtype) for shape in shapes]
scales = tf.constant([0.015625, 0.03125, 0.0625])  # powers of two: exact in halves
with tf.device("CPU:0"):  # eagerly: TensorFlow alone; the first 64 rows and columns in float64
    x, w, grad = (tf.cast(quantised(v, s), tf.float64).numpy() * float(s) for v, s in zip(given, scales))
    want = x[:64] @ w[:, :64], grad[:64] @ w[:64].T, x[:, :64].T @ grad[:, :64]
stitched = tf.function(step)
for call in range(8):  # as a CUDA graph from the fourth
    for name, a, b in zip("y dx dw".split(), stitched(*given, scales), want):
        step_of_halves = 2.0 ** (-8 if dtype == tf.bfloat16 else -11)
        np.testing.assert_allclose(tf.cast(a[:64, :64], tf.float64), b, rtol=step_of_halves * 1.01,
                                   atol=1e-3 * np.abs(b).max(), err_msg=f"{name} {call}")
"""


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_layer(tmp_path: Path, dtype: str) -> None:
    report = run(STEP.replace("DTYPE", dtype), tmp_path, TF_STITCH_GUARD="0", TF_STITCH_SCOPE="region")
    assert not report["fallbacks"]
    assert json.dumps(report).count("gemm float8_e4m3fn") >= 3
