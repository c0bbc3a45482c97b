"""Two GPUs in one process: Keras' replicas, a model over both, one function on each from threads. Prints JSON.
Argument: "nccl", where GPUs are not to give each other their gradients by copies."""

from __future__ import annotations

import json
import sys
import threading

import keras
import numpy as np
import tensorflow as tf

if "nccl" in sys.argv[1:]:
    from tf_stitch.plugin import session

    session.reach_each_other = lambda one, other: False
keras.utils.set_random_seed(0)
random = np.random.default_rng(0)
X = random.standard_normal((64, 32)).astype(np.float32)
Y = np.tanh(X @ random.standard_normal((32, 4)).astype(np.float32) / 6)
results: dict[str, object] = {}
strategy = tf.distribute.MirroredStrategy()  # one for all: two of them have the same numbers for their collectives


def replicas() -> None:
    """Keras trains on both; what one replica computes, the other has to have, too."""
    with strategy.scope():
        hidden = [keras.layers.Dense(48, activation="gelu"), keras.layers.LayerNormalization()]
        model = keras.Sequential([keras.Input((32,)), *hidden, keras.layers.Dense(4, activation="tanh")])
        model.compile(optimizer=keras.optimizers.Adam(1e-2), loss="mse", jit_compile=False)
    history = model.fit(X, Y, batch_size=32, epochs=20, shuffle=False, verbose=0)
    results["replicas"] = strategy.num_replicas_in_sync
    results["losses"] = history.history["loss"]
    copies = [v.numpy() for w in model.trainable_variables for v in [strategy.experimental_local_results(w.value)]
              for v in v]  # fmt: skip
    results["replicas_agree"] = all((a == b).all() for a, b in zip(copies[::2], copies[1::2], strict=True))
    results["predicted"] = model.predict(X, verbose=0).ravel().tolist()


def replicas_in_buckets() -> None:
    """As many weights as make several buckets of gradients, which are summed while others are computed."""
    with strategy.scope():
        hidden = [keras.layers.Dense(2048, activation="tanh") for _ in range(4)]
        model = keras.Sequential([keras.Input((32,)), *hidden, keras.layers.Dense(4)])
        model.compile(optimizer=keras.optimizers.SGD(1e-2, momentum=0.9), loss="mse", jit_compile=False)
    history = model.fit(X, Y, batch_size=32, epochs=30, shuffle=False, verbose=0)
    results["bucket_losses"] = history.history["loss"]
    copies = [strategy.experimental_local_results(w.value) for w in model.trainable_variables]
    results["buckets_agree"] = all((a.numpy() == b.numpy()).all() for a, b in copies)


def a_model_over_both() -> None:
    weights = [tf.constant(random.standard_normal((32, 32)).astype(np.float32) / 6) for _ in range(4)]

    @tf.function
    def halves_graph(x: tf.Tensor) -> tf.Tensor:
        for turn in range(4):
            with tf.device(f"GPU:{turn % 2}"):
                x = tf.nn.softmax(tf.matmul(x, weights[turn])) * 3.0 + tf.sin(x)
        return x

    for _ in range(20):
        y = halves_graph(tf.constant(X))
    results["halves"] = y.numpy().ravel().tolist()


def one_function_on_each() -> None:
    @tf.function
    def shared_graph(x: tf.Tensor) -> tf.Tensor:
        for _ in range(3):
            x = tf.nn.softmax(x * 2.0 + 1.0) - tf.reduce_mean(tf.tanh(x), axis=1, keepdims=True)
        return x

    found: dict[int, list[float]] = {}

    def work(gpu: int) -> None:
        with tf.device(f"GPU:{gpu}"):
            x = tf.constant(X) + float(gpu)
            for _ in range(60):
                y = shared_graph(x)
            found[gpu] = y.numpy().ravel().tolist()

    threads = [threading.Thread(target=work, args=(gpu,)) for gpu in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results["on_each"] = [found[0], found[1]]


replicas()
replicas_in_buckets()
a_model_over_both()
one_function_on_each()
print(json.dumps(results))
