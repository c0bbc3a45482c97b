"""Learns from bags of words: 10 steps each of what looks up and adds by tf.nn.embedding_lookup_sparse, by reductions of
ragged tensors, and by a StringLookup in a tf.data pipeline. Bags' sizes are other ones in each step. Prints losses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

WORDS, WIDTH, BATCH, LENGTH, STEPS = 30, 8, 4, 5, 10


def batches() -> Iterator[tuple[Any, Any]]:
    """Numbers of words, ragged, and what is wanted."""
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        lengths = rng.integers(1, LENGTH, BATCH)
        words = tf.constant(rng.integers(0, WORDS, lengths.sum()))
        yield tf.RaggedTensor.from_row_lengths(words, lengths), tf.constant(rng.normal(size=(BATCH, 1)), tf.float32)


def trained(name: str, bag: Callable[[Any, Any], Any], given: Iterator[tuple[Any, Any]]) -> list[float]:
    """Losses of a network behind `bag` (table, words), whose rows are the means or sums of bags."""
    rng = np.random.default_rng(1)
    table, weights = (tf.Variable(rng.normal(size=s), dtype=tf.float32) for s in ((WORDS, WIDTH), (WIDTH, 1)))

    def step(words: Any, wanted: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.tanh(bag(table, words)) @ weights - wanted) ** 2)
        rows, dense = tape.gradient(loss, (table, weights))
        table.scatter_sub(tf.IndexedSlices(0.1 * rows.values, rows.indices))
        weights.assign_sub(0.1 * dense)
        return loss

    step.__name__ = name
    function = tf.function(step, reduce_retracing=True)
    return [float(function(words, wanted)) for words, wanted in given]


def sparse(combiner: str) -> dict[str, list[float]]:
    def bag(table: Any, words: Any) -> Any:
        return tf.nn.embedding_lookup_sparse(table, words, None, combiner=combiner)

    return {f"sparse_{combiner}": trained(f"sparse_{combiner}", bag, ((w.to_sparse(), y) for w, y in batches()))}


def ragged(reduce: Callable[..., Any]) -> dict[str, list[float]]:
    def bag(table: Any, words: Any) -> Any:
        return reduce(tf.ragged.map_flat_values(lambda flat: tf.gather(table, flat), words), axis=1)

    name = f"ragged_{reduce.__name__}"
    return {name: trained(name, bag, batches())}


def strings() -> dict[str, list[float]]:
    """Words are strings until a pipeline has looked them up, and padded to one length by 0."""
    known = keras.layers.StringLookup(vocabulary=[f"word{i}" for i in range(WORDS - 1)])

    def pipeline() -> Iterator[tuple[Any, Any]]:
        for words, wanted in batches():
            yield tf.strings.join(["word", tf.strings.as_string(words.to_tensor(shape=(BATCH, LENGTH)))]), wanted

    spec = (tf.TensorSpec((BATCH, LENGTH), tf.string), tf.TensorSpec((BATCH, 1)))
    data = tf.data.Dataset.from_generator(pipeline, output_signature=spec).map(lambda w, y: (known(w), y))
    return {"strings": trained("strings", lambda table, words: tf.reduce_sum(tf.gather(table, words), 1), iter(data))}


if __name__ == "__main__":
    bags = {**sparse("sum"), **sparse("mean"), **ragged(tf.reduce_sum), **ragged(tf.reduce_max)}
    print(json.dumps({**bags, **strings()}))
