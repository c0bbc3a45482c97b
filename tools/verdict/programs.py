"""Ten programs that do not mention tf_stitch. Each is run in a process of its own:

    echo "5" | python -m tools.verdict.programs --verdict_program=mlp_training

runs steps for the seconds that each line of stdin says, and then prints the milliseconds of one: the lower quartile of
the last two thirds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import app, flags

_PROGRAM = flags.DEFINE_string("verdict_program", "mlp_training", "one of PROGRAMS")

Step = Callable[[], Any]
_LEAST = 6
"""Steps, however long they take."""


def training(model: Any, x: tf.Tensor, y: tf.Tensor) -> Step:
    """Steps of a Keras model with Adam, written out."""
    optimizer = tf.keras.optimizers.Adam(1e-3)

    @tf.function
    def train_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True)))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return lambda: train_step(x, y)


def classes(x: tf.Tensor) -> tf.Tensor:
    return tf.argmax(tf.reshape(x, [x.shape[0], -1])[:, :10], 1)


def mlp_training() -> Step:
    layers = tf.keras.layers
    model = tf.keras.Sequential([
        layers.Dense(256, "gelu"), layers.LayerNormalization(), layers.Dense(256, "gelu"), layers.LayerNormalization(),
        layers.Dense(10)])  # fmt: skip
    x = tf.random.normal([512, 64])
    return training(model, x, classes(x))


def softmax() -> Step:
    @tf.function
    def probabilities(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(tf.tanh(x) * 2.0 + 1.0)

    x = tf.random.normal([512, 1000])
    return lambda: probabilities(x)


def few_ops() -> Step:
    """A call is nearly all of it."""
    @tf.function
    def scaled(x: tf.Tensor) -> tf.Tensor:
        return tf.sigmoid(x * 2.0 + 1.0)

    x = tf.random.normal([16])
    return lambda: scaled(x)


def large_matmuls() -> Step:
    """Next to nothing can be gained."""
    weights = [tf.Variable(tf.random.normal([512, 512]) / 23.0) for _ in range(3)]

    @tf.function
    def products(x: tf.Tensor) -> tf.Tensor:
        for weight in weights:
            x = tf.nn.relu(x @ weight)
        return x

    x = tf.random.normal([256, 512])
    return lambda: products(x)


def layer_norms() -> Step:
    layers = tf.keras.layers
    model = tf.keras.Sequential([layer for _ in range(4) for layer in (layers.LayerNormalization(),
                                                                       layers.Activation("gelu"))])
    x = tf.random.normal([256, 768])
    model(x)
    call = tf.function(lambda x: model(x, training=False))
    return lambda: call(x)


def encoder() -> Step:
    layers = tf.keras.layers
    inputs = layers.Input([64, 128])
    attended = layers.MultiHeadAttention(4, 32)(inputs, inputs)
    hidden = layers.LayerNormalization()(inputs + attended)
    outputs = layers.LayerNormalization()(hidden + layers.Dense(128)(layers.Dense(256, "gelu")(hidden)))
    model = tf.keras.Model(inputs, outputs)
    call = tf.function(lambda x: model(x, training=False))
    x = tf.random.normal([8, 64, 128])
    return lambda: call(x)


def recurrent_training() -> Step:
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.LSTM(32), layers.Dense(10)])
    x = tf.random.normal([32, 20, 16])
    return training(model, x, classes(x))


def convolution_training() -> Step:
    layers = tf.keras.layers
    model = tf.keras.Sequential([
        layers.Conv2D(8, 3, activation="relu"), layers.BatchNormalization(), layers.DepthwiseConv2D(3),
        layers.BatchNormalization(), layers.ReLU(), layers.GlobalAveragePooling2D(), layers.Dense(10)])  # fmt: skip
    x = tf.random.normal([16, 24, 24, 3])
    return training(model, x, classes(x))


def embedding_training() -> Step:
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Embedding(2000, 32), layers.Flatten(), layers.Dense(64, "swish"),
                                 layers.BatchNormalization(), layers.Dense(10)])
    x = tf.constant(np.random.default_rng(0).integers(0, 2000, [128, 20]))
    return training(model, x, tf.cast(x[:, 0] % 10, tf.int64))


def simulation() -> Step:
    """Positions and velocities that are updated in place."""
    position, velocity = tf.Variable(tf.random.normal([300, 300])), tf.Variable(tf.zeros([300, 300]))

    @tf.function
    def advance(dt: tf.Tensor) -> tf.Tensor:
        force = -tf.sin(position) - 0.1 * velocity * tf.abs(velocity)
        velocity.assign_add(dt * force)
        position.assign_add(dt * velocity)
        return tf.reduce_mean(tf.square(velocity)) + tf.reduce_mean(1.0 - tf.cos(position))

    dt = tf.constant(0.01)
    return lambda: advance(dt)


PROGRAMS: dict[str, Callable[[], Step]] = {program.__name__: program for program in (
    mlp_training, softmax, few_ops, large_matmuls, layer_norms, encoder, recurrent_training, convolution_training,
    embedding_training, simulation)}  # fmt: skip


def milliseconds(step: Step, seconds: float) -> float:
    """Of a step: the lower quartile, without the first third, which finds caches that another process has filled."""
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < _LEAST or time.perf_counter() < begin + seconds:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    late = sorted(times[len(times) // 3:])
    return 1e3 * late[len(late) // 4]


def main(_: Sequence[str]) -> None:
    tf.keras.utils.set_random_seed(0)
    step = PROGRAMS[_PROGRAM.value]()
    for line in sys.stdin:
        print(f"step {milliseconds(step, float(line)):.6f} ms", flush=True)


if __name__ == "__main__":
    app.run(main)
