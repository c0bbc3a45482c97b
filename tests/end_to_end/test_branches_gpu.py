"""Optimizers behind branches on a GPU: one region a step, and what a step leaves is what it leaves step by step."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from tests.end_to_end.test_gpu import run

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")]

STEPS = """
import keras, numpy as np, tensorflow as tf
tf.config.experimental.enable_tensor_float_32_execution(False)
keras.mixed_precision.set_global_policy("POLICY")
def made():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(64, activation="tanh"), keras.layers.Dense(4)])
    optimizer = OPTIMIZER
    optimizer.build(model.trainable_variables)
    return model, optimizer
def step(model, optimizer, x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.cast(model(x, training=True), tf.float32) - y))
        scaled = optimizer.scale_loss(loss)
    optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
    return loss
(model, optimizer), (plain, its) = made(), made()
stitched = tf.function(lambda x, y: step(model, optimizer, x, y))
random = np.random.default_rng(0)
for i in range(24):
    x, y = (tf.constant(random.standard_normal(shape), tf.float32) for shape in ((8, 16), (8, 4)))
    if i in (5, 17):
        x = x * np.inf
    before = [v.numpy() for v in model.trainable_variables]
    got, want = stitched(x, y).numpy(), step(plain, its, x, y).numpy()
    np.testing.assert_allclose(got, want, rtol=RTOL)
    for mine, other in zip(optimizer.variables, its.variables):
        if mine.shape == ():
            np.testing.assert_array_equal(mine.numpy(), other.numpy(), err_msg=f"{i}: {mine.path}")
    for mine, other, had in zip(model.trainable_variables, plain.trainable_variables, before):
        if i in UNCHANGED:
            np.testing.assert_array_equal(mine.numpy(), had)
        if STOPS not in range(i + 1):
            np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=RTOL, atol=RTOL)
"""


def steps(tmp_path: Path, **given: str) -> None:
    source = STEPS
    for name, value in given.items():
        source = source.replace(name, value)
    report = run(source, tmp_path, TF_STITCH_ASYNC="0", TF_STITCH_GUARD="0")
    assert not report["fallbacks"]
    assert len(report["regions"]) == 1


def test_loss_scaling(tmp_path: Path) -> None:
    """Steps with gradients that are not finite change nothing but the scale."""
    scaling = ("keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01), initial_scale=64.0, "
               "dynamic_growth_steps=4)")
    steps(tmp_path, POLICY="mixed_float16", OPTIMIZER=scaling, RTOL="1e-2", UNCHANGED="(5, 17)", STOPS="99")


def test_gradient_accumulation(tmp_path: Path) -> None:
    """Three of four steps change no weight."""
    accumulating = "keras.optimizers.AdamW(0.01, gradient_accumulation_steps=4, global_clipnorm=1.0)"
    steps(tmp_path, POLICY="float32", OPTIMIZER=accumulating, RTOL="1e-3", UNCHANGED="(0, 1, 2, 4, 6, 8, 9, 10)",
          STOPS="5")
