from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.convert.structure import structure_of


def graph(weight: Any, name: str = "y", axis: int = 1) -> GraphDef:
    with tf.Graph().as_default() as made:
        x = tf.compat.v1.placeholder(tf.float32, (3, 16), name=f"x_of_{name}")
        tf.reduce_sum(x * tf.constant(weight), axis, name=name)
    return made.as_graph_def()


def test_names_and_weights_make_no_difference() -> None:
    random = np.random.default_rng(0).standard_normal((3, 16, 16)).astype(np.float32)[:, 0, :]
    big = np.ones((16, 16, 16), np.float32)
    with tf.Graph().as_default():
        assert structure_of([graph(random)]) == structure_of([graph(random, "z")])
    assert structure_of([weights(big)]) == structure_of([weights(2 * big)])


def weights(value: Any) -> GraphDef:
    with tf.Graph().as_default() as made:
        tf.tanh(tf.constant(value))
    return made.as_graph_def()


def test_what_is_computed_makes_one() -> None:
    one = np.ones((16,), np.float32)
    base = structure_of([graph(one)])
    assert structure_of([graph(one, axis=0)]) != base
    assert structure_of([graph(2 * one)]) != base  # so few values may be anything
    square, flat = np.ones((16, 16), np.float32), np.ones((256,), np.float32)
    assert structure_of([weights(square)]) != structure_of([weights(flat)])
    assert structure_of([graph(one), graph(one)]) != base


def test_edges_make_one() -> None:
    def difference(swapped: bool) -> GraphDef:
        with tf.Graph().as_default() as made:
            a, b = (tf.compat.v1.placeholder(tf.float32, (3,), name=n) for n in "ab")
            _ = b - a if swapped else a - b
        return made.as_graph_def()

    assert structure_of([difference(False)]) != structure_of([difference(True)])
