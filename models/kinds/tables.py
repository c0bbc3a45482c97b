"""Rows of numbers that a network chooses among, and graphs whose nodes send messages."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from models.kinds.draws import integers
from models.kinds.losses import cross_entropy
from models.kinds.objective import Objective
from models.network import Network, prepared


def _network(model: keras.Model, draw: Any) -> Network:
    return Network(model, prepared(keras.optimizers.Adam(1e-3), model.trainable_variables), cross_entropy, draw)


def _sparsemax(z: Any) -> Any:
    """Weights of rows, many of them zero (Martins and Astudillo, 2016)."""
    z = tf.cast(z, tf.float32)
    ordered = tf.sort(z, direction="DESCENDING")
    sums, place = tf.cumsum(ordered, -1), tf.range(1, z.shape[-1] + 1, dtype=z.dtype)
    count = tf.reduce_sum(tf.cast(1 + place * ordered > sums, z.dtype), -1, keepdims=True)
    least = (tf.gather(sums, tf.cast(count, tf.int32) - 1, batch_dims=1) - 1) / count
    return tf.maximum(z - least, 0)


def tabnet(small: bool) -> Network:
    """Arik and Pfister, 2021."""
    columns, width, steps, classes = (12, 8, 2, 3) if small else (64, 64, 5, 10)
    given = keras.Input((columns,))
    x = layers.BatchNormalization()(given)

    def gated(x: Any) -> Any:
        value, gate = ops.split(layers.BatchNormalization()(layers.Dense(4 * width, use_bias=False)(x)), 2, -1)
        return value * ops.sigmoid(gate)

    def features(x: Any) -> Any:
        first = gated(x)
        return ops.split((first + gated(first)) * 0.5**0.5, 2, -1)

    left, found, attended = ops.ones_like(x), 0.0, features(x)[1]
    for _ in range(steps):
        scores = layers.BatchNormalization()(layers.Dense(columns, use_bias=False)(attended)) * left
        chosen = ops.cast(layers.Lambda(_sparsemax, output_shape=(columns,), dtype="float32")(scores), x.dtype)
        left = left * (1.5 - chosen)
        mine, attended = features(chosen * x)
        found = found + ops.relu(mine)
    model = keras.Model(given, layers.Dense(classes)(found))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        return random.integers(0, classes, size), random.standard_normal((size, columns)).astype(np.float32)

    return _network(model, draw)


class Messages(layers.Layer):
    """Nodes take messages over edges, weighed by a softmax over all that reach them (as Veličković et al., 2018)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.message, self.weight = layers.Dense(width, activation="relu"), layers.Dense(1)
        self.update = layers.GRUCell(width)

    def call(self, nodes: Any, source: Any, target: Any) -> Any:
        count = nodes.shape[0]
        sent = self.message(tf.concat([tf.gather(nodes, source), tf.gather(nodes, target)], -1))
        score = tf.cast(self.weight(sent), tf.float32)
        score = tf.exp(score - tf.gather(tf.math.unsorted_segment_max(score, target, count), target))
        score = score / tf.gather(tf.math.unsorted_segment_sum(score, target, count), target)
        taken = tf.math.unsorted_segment_sum(tf.cast(score, sent.dtype) * sent, target, count)
        return self.update(taken, [nodes])[0]


def graph_net(small: bool) -> Network:
    """A network of one graph, whose nodes get classes. A batch is edges for each of its nodes."""
    nodes, width, rounds, classes = (40, 8, 2, 4) if small else (10000, 128, 4, 16)
    given = keras.Input(batch_shape=(nodes, width))
    source, target = (keras.Input(batch_shape=(None,), dtype="int32") for _ in range(2))
    x = layers.Dense(width, activation="relu")(given)
    for _ in range(rounds):
        x = layers.LayerNormalization()(x + Messages(width)(x, source, target))
    model = keras.Model([given, source, target], layers.Dense(classes)(x))

    def draw(random: np.random.Generator, size: int) -> tuple[Any, ...]:
        edges = random.integers(0, nodes, (2, size * nodes)).astype(np.int32)
        return random.integers(0, classes, nodes), random.standard_normal((nodes, width)).astype(np.float32), *edges

    return _network(model, draw)


def gcn(small: bool) -> Objective:
    """Kipf and Welling, 2016: a graph as a matrix, some of whose nodes have classes. A batch is the graph."""
    (nodes, width, words, share), classes = (16, 8, 12, 0.2) if small else (2708, 64, 1433, 0.01), 7
    shapes = ((words, width), (width, classes))
    weights = [tf.Variable(np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * 0.05)
               for seed, shape in enumerate(shapes)]

    def loss(wanted: Any, known: Any, edges: Any, x: Any) -> Any:
        scale = tf.math.rsqrt(tf.reduce_sum(edges, 1) + 1)
        spread = scale[:, None] * (edges + tf.eye(nodes)) * scale[None]
        hidden = tf.nn.relu(tf.matmul(spread, tf.matmul(x, weights[0])))
        logits = tf.matmul(spread, tf.matmul(hidden, weights[1]))
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, logits)
        return tf.reduce_sum(known * entropy) / tf.reduce_sum(known)

    def some(random: np.random.Generator, share: float, *shape: int) -> Any:
        return (random.random(shape) < share).astype(np.float32)

    def draw(random: np.random.Generator, _: int) -> tuple[Any, ...]:
        edges = some(random, share, nodes, nodes)
        wanted, known = integers(random, classes, nodes), some(random, 0.5, nodes)
        return wanted, known, np.maximum(edges, edges.T), some(random, share, nodes, words)

    return Objective(weights, prepared(keras.optimizers.Adam(1e-2), weights), loss, draw)
