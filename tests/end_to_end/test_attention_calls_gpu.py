"""Attentions that cuDNN computes on a GPU, in train steps and without, against TensorFlow in float64. Each case is a
process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
assert abs(want[-1] / want[0] - 1) > 0.02  # more than rounding
"""


def test_a_language_model_trains_by_it(tmp_path: Path) -> None:
    report = run(GPT, tmp_path, **ALONE)
    assert not report["fallbacks"]
    calls = [str(kernel["symbol"]) for kernel in report["kernels"] if kernel["rule"] == "library"]
    assert sum(call.startswith("an attention") for call in calls) == 2, calls
    assert sum(call.startswith("gradients of an attention") for call in calls) == 2, calls


BY_ITSELF = """
from dataclasses import replace
from tf_stitch.device.spec import H200
choices = replace(H200.profile.choices, attention_call_us=0.0)
vars(H200.profile)["choices"] = choices  # a call costs no more among kernels than by itself: short ones are called
"""
INFERENCE = """
import numpy as np, tensorflow as tf
dtype = tf.as_dtype("DTYPE")
random = np.random.default_rng(0)
BATCH, LENGTH, KEYS, HEADS, GROUPS, SIZE = SIZES
def attention(q, k, v):  # [batch, length, heads, size]
    k, v = (tf.repeat(x, HEADS // GROUPS, axis=2) for x in (k, v)) if GROUPS != HEADS else (k, v)
    scores = tf.einsum("bqhd,bkhd->bhqk", q * SIZE ** -0.5, k) if SCALED else tf.einsum("bqhd,bkhd->bhqk", q, k)
    scores = tf.cast(scores, tf.float64 if q.dtype == tf.float64 else tf.float32)
    if not SCALED:
        scores *= SIZE ** -0.5
    if CAUSAL:
        seen = tf.linalg.band_part(tf.ones((LENGTH, KEYS), tf.bool), -1, 0)
        scores = tf.where(seen, scores, tf.constant(-1e9, scores.dtype))
    return tf.einsum("bhqk,bkhd->bqhd", tf.cast(tf.nn.softmax(scores), q.dtype), v)
def apart(q, k, v):
    return attention(tf.sin(q) * 2, k, v)
def by_heads(q, k, v):  # and back
    return tf.transpose(attention(*(tf.transpose(x, (0, 2, 1, 3)) for x in (q, k, v))), (0, 2, 1, 3))
def beside(x):  # as one matmul gives all three
    return tf.reshape(attention(*tf.unstack(tf.reshape(x, (BATCH, LENGTH, 3, HEADS, SIZE)), axis=2)),
                      (BATCH, LENGTH, HEADS * SIZE))
shapes = {"apart": [(BATCH, n, heads, SIZE) for n, heads in ((LENGTH, HEADS), (KEYS, GROUPS), (KEYS, GROUPS))],
          "by_heads": [(BATCH, HEADS, n, SIZE) for n in (LENGTH, KEYS, KEYS)],
          "beside": [(BATCH, LENGTH, 3 * HEADS * SIZE)]}["FORM"]
given = [tf.cast(random.standard_normal(shape), dtype) for shape in shapes]
with tf.device("CPU:0"):  # eagerly, in float64: TensorFlow alone
    want = FORM(*(tf.cast(x, tf.float64) for x in given)).numpy()
stitched = tf.function(FORM)
for call in range(8):  # as a CUDA graph from the fourth
    got = stitched(*given)
    allowed = (2.5e-2 if dtype == tf.bfloat16 else 4e-3) * max(1.0, np.abs(want).max())
    np.testing.assert_allclose(tf.cast(got, tf.float64), want, rtol=0, atol=allowed, err_msg=str(call))
"""


def infer(tmp_path: Path, dtype: str, form: str, sizes: tuple[int, ...], causal: bool, scaled: bool = False,
          before: str = "") -> tuple[dict[str, Any], list[str]]:
    """The report, and its library calls.

    Args:
        before: statements.
    """
    source = BY_ITSELF + before + INFERENCE.replace("DTYPE", dtype).replace("FORM", form).replace("SIZES", str(sizes))
    source = source.replace("CAUSAL", str(causal)).replace("SCALED", str(scaled))
    report = run(source, tmp_path, **ALONE)
    return report, [str(kernel["symbol"]) for kernel in report["kernels"] if kernel["rule"] == "library"]


@pytest.mark.parametrize(("dtype", "form", "sizes", "causal", "scaled"), [
    ("bfloat16", "apart", (16, 256, 256, 12, 12, 64), True, False),
    ("float16", "apart", (16, 256, 256, 12, 12, 64), True, False),
    ("bfloat16", "apart", (32, 197, 197, 12, 12, 64), False, False),
    ("float16", "apart", (32, 197, 197, 12, 12, 64), False, True),
    ("bfloat16", "apart", (8, 333, 517, 12, 12, 64), False, False),
    ("bfloat16", "apart", (2, 1024, 1024, 16, 16, 128), True, True),
    ("float16", "apart", (1, 2048, 2048, 16, 16, 64), True, False),
    ("bfloat16", "apart", (4, 1024, 1024, 16, 4, 64), True, False),
    ("float16", "apart", (16, 197, 197, 16, 2, 64), False, False),
    ("bfloat16", "by_heads", (16, 256, 256, 12, 12, 64), True, False),
    ("bfloat16", "beside", (16, 256, 256, 12, 12, 64), True, False),
    ("float16", "beside", (32, 197, 197, 12, 12, 64), False, True)])
def test_inference(tmp_path: Path, dtype: str, form: str, sizes: tuple[int, ...], causal: bool, scaled: bool) -> None:
    report, calls = infer(tmp_path, dtype, form, sizes, causal, scaled)
    assert not report["fallbacks"]
    assert [call[:12] for call in calls] == ["an attention"]
    assert not [kernel for kernel in report["kernels"] if kernel["rule"] == "attention"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_one_query_has_the_kernel_for_it(tmp_path: Path, dtype: str) -> None:
    report, calls = infer(tmp_path, dtype, "apart", (1, 1, 97, 12, 12, 64), causal=False)
    assert not report["fallbacks"]
    assert not calls
    assert [kernel["rule"] for kernel in report["kernels"]].count("attention") == 1


REFUSED = """
from tf_stitch.native.bindings import OpLibrary
OpLibrary.try_calls = lambda self, device, words: "a kernel is missing"
"""


def test_what_cudnn_refuses_is_a_kernel_of_ours(tmp_path: Path) -> None:
    report, calls = infer(tmp_path, "bfloat16", "apart", (16, 256, 256, 12, 12, 64), causal=True, before=REFUSED)
    [refused] = report["fallbacks"]
    assert (refused["stage"], refused["reason"], refused["count"]) == ("library", "a kernel is missing", 1)
    assert not calls
    assert [kernel["rule"] for kernel in report["kernels"]].count("attention") == 1


KERAS = """
import keras, numpy as np, tensorflow as tf
keras.mixed_precision.set_global_policy("mixed_bfloat16")
keras.utils.set_random_seed(0)
ids = keras.Input((256,), dtype="int32")
x = keras.layers.Embedding(1000, 768)(ids)
y = keras.layers.LayerNormalization()(x)
x = x + keras.layers.MultiHeadAttention(12, 64)(y, y, use_causal_mask=True)
y = keras.layers.LayerNormalization()(x)
x = x + keras.layers.GroupQueryAttention(64, 12, 4)(y, y, use_causal_mask=True)
model = keras.Model(ids, keras.layers.LayerNormalization()(x))
infer = lambda ids: tf.cast(model(ids, training=False), tf.float32)
ids = tf.constant(np.random.default_rng(0).integers(0, 1000, (16, 256)), tf.int32)
want, stitched = infer(ids).numpy(), tf.function(infer)  # normalised: of size 1
for call in range(8):
    apart = np.abs(stitched(ids).numpy() - want)
    assert apart.mean() < 0.02 and apart.max() < 0.5, (call, apart.mean(), apart.max())
"""


def test_layers_of_keras_infer_by_it(tmp_path: Path) -> None:
    """Keys and values that groups of queries share get no copies."""
    report = run(BY_ITSELF + KERAS, tmp_path, **ALONE)
    assert not report["fallbacks"]
    calls = [str(kernel["symbol"]) for kernel in report["kernels"] if kernel["rule"] == "library"]
    assert sorted(call for call in calls if call.startswith("an attention")) == [
        "an attention bfloat16 16x12 heads [256,256]x64 causal",
        "an attention bfloat16 16x12 heads by 3 [256,256]x64 causal"]
