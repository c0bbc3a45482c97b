"""Programs of seconds that do not mention tf_stitch, as people write them. Each is run in a process of its own:

    python -m tools.short_programs.programs --short_program=custom_loop

`--times` has it run longer: as many times as many steps, trials, requests, ..."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import app, flags

_PROGRAM = flags.DEFINE_string("short_program", "custom_loop", "one of PROGRAMS")
_TIMES = flags.DEFINE_float("times", 1.0, "how long it runs")

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def steps(count: int) -> range:
    return range(round(count * _TIMES.value))


def classifier(units: int = 128) -> Any:
    layers = tf.keras.layers
    return tf.keras.Sequential([layers.Dense(units, "gelu"), layers.LayerNormalization(), layers.Dense(units, "gelu"),
                                layers.LayerNormalization(), layers.Dense(10)])  # fmt: skip


def session() -> None:
    """TensorFlow 1: placeholders, a session, an optimizer's op."""
    tf1 = tf.compat.v1
    with tf.Graph().as_default(), tf1.Session() as run:
        x, y = tf1.placeholder(tf.float32, [None, 64]), tf1.placeholder(tf.float32, [None, 10])
        hidden = x
        for width in (128, 64):
            weights = tf1.Variable(tf.random.normal([int(hidden.shape[1]), width], stddev=0.1))
            hidden = tf.nn.softplus(hidden @ weights + tf1.Variable(tf.zeros([width])))
        logits = hidden @ tf1.Variable(tf.random.normal([64, 10], stddev=0.1))
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(y, logits))
        train = tf1.train.AdamOptimizer(1e-3).minimize(loss)
        run.run(tf1.global_variables_initializer())
        for _ in steps(400):
            run.run([train, loss], {x: normal(64, 64), y: np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 64)]})


def custom_loop() -> None:
    """A train step written out."""
    model, optimizer = classifier(), tf.keras.optimizers.Adam(1e-3)

    @tf.function
    def train_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True)))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    for _ in steps(400):
        train_step(tf.constant(normal(128, 64)), tf.constant(RNG.integers(0, 10, 128)))


def reinforcement() -> None:
    """A policy that acts step by step, and learns after each episode."""
    policy, optimizer = classifier(64), tf.keras.optimizers.Adam(1e-2)

    @tf.function(reduce_retracing=True)
    def act(state: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(policy(state[None]))[0]

    @tf.function(input_signature=[tf.TensorSpec([None, 8]), tf.TensorSpec([None], tf.int64), tf.TensorSpec([None])])
    def learn(states: tf.Tensor, actions: tf.Tensor, returns: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            log_p = -tf.nn.sparse_softmax_cross_entropy_with_logits(actions, policy(states))
            loss = -tf.reduce_mean(log_p * (returns - tf.reduce_mean(returns)))
        variables = policy.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    for _ in steps(40):
        state, states, actions, rewards = normal(8), [], [], []
        for _ in range(int(RNG.integers(20, 60))):
            chances = act(tf.constant(state)).numpy().astype(np.float64)
            action = RNG.choice(10, p=chances / chances.sum())
            states.append(state)
            actions.append(action)
            rewards.append(1.0 - abs(float(state[0]) - action / 10))
            state = (0.9 * state + 0.1 * normal(8)).astype(np.float32)
        returns = np.cumsum(rewards[::-1])[::-1].astype(np.float32)
        learn(tf.constant(np.array(states)), tf.constant(np.array(actions)), tf.constant(returns))


def keras_fit() -> None:
    """A small network for images, by Keras' compile and fit."""
    layers = tf.keras.layers
    model = tf.keras.Sequential([
        layers.Conv2D(8, 3, activation="relu"), layers.BatchNormalization(), layers.MaxPooling2D(),
        layers.Conv2D(16, 3, activation="relu"), layers.BatchNormalization(), layers.GlobalAveragePooling2D(),
        layers.Dropout(0.2), layers.Dense(10)])  # fmt: skip
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(normal(1600, 28, 28, 1), RNG.integers(0, 10, 1600), batch_size=32, epochs=len(steps(4)), verbose=0)


def encoder(width: int = 64) -> Any:
    layers = tf.keras.layers
    inputs = layers.Input([None, width])
    hidden = inputs
    for _ in range(2):
        attended = layers.MultiHeadAttention(4, width // 4)(hidden, hidden)
        hidden = layers.LayerNormalization()(hidden + attended)
        hidden = layers.LayerNormalization()(hidden + layers.Dense(width)(layers.Dense(2 * width, "gelu")(hidden)))
    return tf.keras.Model(inputs, hidden)


def retraced_lengths() -> None:
    """A function that TensorFlow traces for each of 40 lengths."""
    model = encoder()

    @tf.function(reduce_retracing=False)
    def embed(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(model(x, training=False), 1)

    for length in range(10, 10 + len(steps(40))):
        for _ in range(3):
            embed(tf.constant(normal(4, length, 64)))


def trials() -> None:
    """Twelve trials of hyperparameters, each with a model of its own."""
    for trial in steps(12):
        model = classifier(32 + 16 * trial)
        model.compile(tf.keras.optimizers.Adam(1e-3 * (1 + trial)),
                      tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(normal(4000, 64), RNG.integers(0, 10, 4000), batch_size=64, epochs=2, verbose=0)


def graph_attention() -> None:
    """Training of a graph attention network: two layers, four heads, softmax over each node's edges."""
    nodes, edges, heads, width = 1000, 6000, 4, 16
    source, target = (tf.constant(RNG.integers(0, nodes, edges)) for _ in range(2))
    features, labels = tf.constant(normal(nodes, 64)), tf.constant(RNG.integers(0, 7, nodes))
    weights = [tf.Variable(normal(rows, heads, width) * 0.1) for rows in (64, heads * width)]
    sides = [[tf.Variable(normal(heads, width) * 0.1) for _ in range(2)] for _ in weights]
    last = tf.Variable(normal(heads * width, 7) * 0.1)
    variables = [*weights, *(side for pair in sides for side in pair), last]
    optimizer = tf.keras.optimizers.Adam(5e-3)

    @tf.function
    def train_step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            hidden = features
            for weight, (left, right) in zip(weights, sides, strict=True):
                values = tf.einsum("nf,fhw->nhw", hidden, weight)
                scores = tf.nn.leaky_relu(tf.gather(tf.reduce_sum(values * left, -1), source)
                                          + tf.gather(tf.reduce_sum(values * right, -1), target), 0.2)
                powers = tf.exp(scores - tf.reduce_max(scores))
                sums = tf.math.unsorted_segment_sum(powers, target, nodes)
                shares = powers / (tf.gather(sums, target) + 1e-9)
                hidden = tf.math.unsorted_segment_sum(shares[..., None] * tf.gather(values, source), target, nodes)
                hidden = tf.reshape(tf.nn.elu(hidden), [nodes, heads * width])
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, hidden @ last))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    for _ in steps(200):
        train_step()


def requests() -> None:
    """200 requests to a model, of 50 lengths that come in any order."""
    model = encoder(128)
    embed = tf.function(lambda x: tf.reduce_mean(model(x, training=False), 1),
                        input_signature=[tf.TensorSpec([None, None, 128])])
    for length in _lengths(len(steps(200)), 50):
        embed(tf.constant(normal(2, length, 128)))


def _lengths(count: int, different: int) -> Iterator[int]:
    each = RNG.permutation(np.arange(16, 16 + 4 * different, 4))
    for place in range(count):
        yield int(each[place % different])


PROGRAMS: dict[str, Callable[[], None]] = {program.__name__: program for program in (
    session, custom_loop, reinforcement, keras_fit, retraced_lengths, trials, graph_attention, requests)}  # fmt: skip


def main(_: Sequence[str]) -> None:
    tf.keras.utils.set_random_seed(0)
    PROGRAMS[_PROGRAM.value]()


if __name__ == "__main__":
    app.run(main)
