"""Makes TensorFlow give up the kernels of functions and make them again, in the ways that programs have; prints as JSON
what came out differently, and how many regions had ended by then."""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context


def function(x: Any) -> Any:
    return tf.nn.softmax(tf.tanh(x * 3.0) + 1.0) * 2 - tf.reduce_mean(x, -1, keepdims=True)


def give_up() -> None:
    """Has TensorFlow forget all kernels of functions."""
    context.context().clear_kernel_cache()
    gc.collect()
    time.sleep(0.3)  # regions end in a thread


def in_thread(call: Callable[[Any], Any], x: Any) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call(x)))
    thread.start()
    thread.join()
    return results[0]


def in_session(x: Any) -> Iterator[Any]:
    """Sessions of one graph, one after the other, and with two sets of fetches."""
    with tf.Graph().as_default() as graph:
        given = tf.compat.v1.placeholder(tf.float32, x.shape)
        y = function(given)
        for _ in range(2):
            with tf.compat.v1.Session(graph=graph) as session:
                yield session.run(y, {given: x})
                yield session.run([y, y * 2], {given: x})[0]
                yield session.run(y, {given: x})


def results(x: Any) -> Iterator[tuple[str, Any]]:
    traced = tf.function(function)
    concrete = traced.get_concrete_function(x)
    for _ in range(2):
        yield "traced", traced(x)
        give_up()
    del traced
    yield "a concrete function alone", concrete(x)
    give_up()
    yield "another thread", in_thread(concrete, x)
    yield "called by another", tf.function(lambda x: tf.identity(concrete(x)))(x)
    give_up()
    yield "a pipeline", next(iter(tf.data.Dataset.from_tensors(x).map(concrete)))
    give_up()
    yield "after a pipeline", concrete(x)
    module = tf.Module()
    module.call = tf.function(concrete, input_signature=[tf.TensorSpec(x.shape)])
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder)
        loaded = tf.saved_model.load(folder)
        yield "loaded", loaded.call(x)
        give_up()
        yield "loaded, again", loaded.call(x)
    for y in in_session(x.numpy()):
        yield "a session", y
    give_up()
    yield "at last", concrete(x)


if __name__ == "__main__":
    x = tf.random.stateless_normal([8, 33], [1, 2])
    wanted = function(x).numpy()
    different = [name for name, y in results(x) if not np.allclose(y, wanted, rtol=1e-5, atol=1e-6)]
    give_up()
    activation = sys.modules.get("tf_stitch.plugin.activation")
    session = None if activation is None else activation.current_session()
    print(json.dumps({"different": different, "regions": 0 if session is None else len(session.registry)}))
