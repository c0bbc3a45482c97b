"""Decodes with a cache of keys and values, as Keras does it: a loop whose body writes the cache at its counter. Prints
the tokens of each sampler, and of a second call. Argument: the batch."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.python.xla import dynamic_update_slice

BATCH, LAYERS, LENGTH, HEADS, WIDTH, WORDS = int(sys.argv[1]), 2, 12, 2, 8, 40
rng = np.random.default_rng(0)


def weights(*shape: int) -> tf.Tensor:
    return tf.constant(rng.standard_normal(shape).astype(np.float32) / shape[0] ** 0.5)


TABLE, PLACES, OUT = weights(WORDS, HEADS * WIDTH), weights(LENGTH, HEADS * WIDTH), weights(HEADS * WIDTH, WORDS)
QKV = [weights(HEADS * WIDTH, 3 * HEADS * WIDTH) for _ in range(LAYERS)]
Sampler = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def attend(x: tf.Tensor, cache: tf.Tensor, qkv: tf.Tensor, at: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """x [batch, 1, channels], cache [batch, 2, length, heads, width]."""
    query, key, value = tf.unstack(tf.reshape(x @ qkv, [-1, 3, 1, HEADS, WIDTH]), axis=1)
    place = tf.stack([0, at, 0, 0])
    keys, values = (dynamic_update_slice(cache[:, i], new, place)
                    for i, new in enumerate((key, value)))
    scores = tf.einsum("bqhw,bkhw->bhqk", query, keys) / WIDTH ** 0.5
    scores = tf.where(tf.range(LENGTH) <= at, scores, -1e9)
    mixed = tf.einsum("bhqk,bkhw->bqhw", tf.nn.softmax(scores), values)
    return x + tf.reshape(mixed, [-1, 1, HEADS * WIDTH]), tf.stack([keys, values], axis=1)


def decoder(sample: Sampler) -> Callable[[tf.Tensor], tf.Tensor]:
    @tf.function
    def decode(prompt: tf.Tensor) -> tf.Tensor:
        def body(at: tf.Tensor, tokens: tf.Tensor, cache: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            x = tf.gather(TABLE, tf.slice(tokens, [0, at], [BATCH, 1])) + PLACES[at]
            caches = []
            for layer, qkv in enumerate(QKV):
                x, new = attend(x, cache[:, layer], qkv, at)
                caches.append(new)
            token = sample(tf.squeeze(x, 1) @ OUT * 4.0, at)
            tokens = dynamic_update_slice(tokens, token[:, None], tf.stack([0, at + 1]))
            return at + 1, tokens, tf.stack(caches, axis=1)

        cache = tf.zeros([BATCH, LAYERS, 2, LENGTH, HEADS, WIDTH])
        state = tf.while_loop(lambda at, *_: at < LENGTH - 1, body, (0, prompt, cache))
        written = tf.round(tf.reduce_sum(state[2], [1, 2, 3, 4, 5]) * 100)
        return tf.concat([state[1], tf.cast(written, tf.int32)[:, None]], 1)

    return decode


def greedy(logits: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
    return tf.argmax(logits, axis=-1, output_type=tf.int32)


def among_the_best(ordered: bool) -> Sampler:
    def sample(logits: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
        best, words = tf.math.top_k(logits, 5, sorted=ordered)
        drawn = tf.random.stateless_categorical(best, 1, seed=tf.stack([7, at]), dtype=tf.int32)
        return tf.squeeze(tf.gather(words, drawn, axis=1, batch_dims=1), 1)

    return sample


SAMPLERS = {"greedy": greedy, "of 5": among_the_best(True), "of 5 in a heap": among_the_best(False)}
prompt = tf.concat([tf.fill([BATCH, 1], 3), tf.zeros([BATCH, LENGTH - 1], tf.int32)], 1)
results = {}
for name, sampler in SAMPLERS.items():
    decode = decoder(sampler)
    results[name] = [decode(prompt).numpy().tolist(), decode(prompt).numpy().tolist()]
print(json.dumps(results))
