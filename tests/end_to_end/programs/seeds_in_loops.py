"""Draws words in a loop, from the seeds that a generator of Keras keeps. Prints what is drawn by three calls, and the
generator's state after each."""

from __future__ import annotations

import json
from typing import Any

import keras
import tensorflow as tf

generator = keras.random.SeedGenerator(3)


@tf.function(autograph=False)
def draw(x: tf.Tensor) -> Any:
    def body(i: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        word = keras.random.categorical(x, 1, seed=generator, dtype="int32")
        return i + 1, x * 0.5 + tf.cast(word, tf.float32)

    return tf.while_loop(lambda i, x: i < 5 + tf.cast(x[0, 0] * 0, tf.int32), body, (0, x))


print(json.dumps([[draw(tf.ones([2, 3]))[1].numpy().tolist(), generator.state.numpy().tolist()] for _ in range(3)]))
