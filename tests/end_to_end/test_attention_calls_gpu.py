"""Attentions of train steps that cuDNN computes on a GPU, against TensorFlow in float64. Each case is a process of its
own."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from tests.end_to_end.test_gpu import run

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")]

ALONE = {"TF_STITCH_GUARD": "0", "TF_STITCH_SCOPE": "region"}
STEP = """
import numpy as np, tensorflow as tf
if REPEATABLE:
    tf.random.set_seed(1)
    tf.config.experimental.enable_op_determinism()
dtype = tf.as_dtype("DTYPE")
random = np.random.default_rng(0)
BATCH, LENGTH, KEYS, HEADS, SIZE = SIZES
def attention(q, k, v):
    scores = tf.einsum("bqhd,bkhd->bhqk", q, k) * SIZE ** -0.5
    scores = tf.cast(scores, tf.float64 if q.dtype == tf.float64 else tf.float32)
    if CAUSAL:
        seen = tf.linalg.band_part(tf.ones((LENGTH, KEYS), tf.bool), -1, 0)
        scores = tf.where(seen, scores, tf.constant(-1e9, scores.dtype))
    return tf.einsum("bhqk,bkhd->bqhd", tf.cast(tf.nn.softmax(scores), q.dtype), v)
def step(q, k, v, weights):
    with tf.GradientTape() as tape:
        tape.watch((q, k, v))
        y = attention(tf.sin(q) * 2, k, v)
        loss = tf.reduce_sum(tf.cast(y * weights, tf.float32 if y.dtype != tf.float64 else tf.float64))
    return [y, *tape.gradient(loss, (q, k, v))]
given = [random.standard_normal((BATCH, n, HEADS, SIZE)) for n in (LENGTH, KEYS, KEYS, LENGTH)]
given = [tf.cast(x, dtype) for x in given]
with tf.device("CPU:0"):  # eagerly, in float64: TensorFlow alone
    want = [x.numpy() for x in step(*(tf.cast(x, tf.float64) for x in given))]
stitched = tf.function(step)
found = set()
for call in range(8):  # as a CUDA graph from the fourth
    got = stitched(*given)
    found.add(b"".join(x.numpy().tobytes() for x in got))
    for name, a, b in zip("o dq dk dv".split(), got, want):
        allowed = (2.5e-2 if dtype == tf.bfloat16 else 4e-3) * max(1.0, np.abs(b).max())
        np.testing.assert_allclose(tf.cast(a, tf.float64), b, rtol=0, atol=allowed, err_msg=f"{name} {call}")
assert not REPEATABLE or len(found) == 1, len(found)
"""


@pytest.mark.parametrize(("dtype", "sizes", "causal", "repeatable"), [
    ("bfloat16", (4, 256, 256, 12, 64), True, False), ("float16", (4, 256, 256, 12, 64), True, False),
    ("bfloat16", (8, 197, 197, 12, 64), False, False), ("bfloat16", (2, 1024, 1024, 8, 128), True, False),
    ("float16", (8, 130, 333, 8, 40), False, False), ("bfloat16", (2, 1024, 1024, 8, 64), True, True)])
def test_train_steps(tmp_path: Path, dtype: str, sizes: tuple[int, ...], causal: bool, repeatable: bool) -> None:
    source = STEP.replace("DTYPE", dtype).replace("SIZES", str(sizes)).replace("CAUSAL", str(causal))
    report = run(source.replace("REPEATABLE", str(repeatable)), tmp_path, **ALONE)
    assert not report["fallbacks"]
    calls = [str(kernel["symbol"]) for kernel in report["kernels"] if kernel["rule"] == "library"]
    assert any(call.startswith("an attention") for call in calls), calls
    assert any(call.startswith("gradients of an attention") for call in calls), calls


GPT = """
import keras, numpy as np, tensorflow as tf
keras.mixed_precision.set_global_policy("mixed_bfloat16")
def trained(function):
    keras.utils.set_random_seed(0)
    ids = keras.Input((256,), dtype="int32")
    x = keras.layers.Embedding(1000, 768)(ids)
    for _ in range(2):
        y = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.MultiHeadAttention(12, 64)(y, y, use_causal_mask=True)
        y = keras.layers.LayerNormalization()(x)
        x = x + keras.layers.Dense(768)(keras.layers.Dense(3072, activation="gelu")(y))
    model = keras.Model(ids, keras.layers.LayerNormalization()(x))
    weights = [v.value for v in model.trainable_variables]
    @function
    def step(ids):
        with tf.GradientTape() as tape:
            errors = tf.square(tf.cast(model(ids, training=True), tf.float32) - 1.0)
            loss = tf.reduce_mean(tf.reduce_sum(errors, -1))
        for v, g in zip(weights, tape.gradient(loss, weights)):
            v.assign_sub(0.001 * tf.cast(tf.convert_to_tensor(g), v.dtype))
        return loss
    ids = tf.constant(np.random.default_rng(0).integers(0, 1000, (16, 256)), tf.int32)
    return [float(step(ids)) for _ in range(8)]
got, want = trained(tf.function), trained(lambda f: f)
print(got, want)
np.testing.assert_allclose(got, want, rtol=2e-2)
assert want[-1] < 0.9 * want[0]
"""


def test_a_language_model_trains_by_it(tmp_path: Path) -> None:
    report = run(GPT, tmp_path, **ALONE)
    assert not report["fallbacks"]
    calls = [str(kernel["symbol"]) for kernel in report["kernels"] if kernel["rule"] == "library"]
    assert sum(call.startswith("an attention") for call in calls) == 2, calls
    assert sum(call.startswith("gradients of an attention") for call in calls) == 2, calls
