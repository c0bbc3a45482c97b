"""Trains a model that is spread: by a parameter server and a worker on loopback, or by DTensor or Keras' DataParallel
over two logical CPUs. Prints the losses of 20 steps. Arguments: server, dtensor or keras; the servers' ports."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import tensorflow as tf

STEPS, BATCH, WIDTH, RATE = 20, 8, 6, 0.05
rng = np.random.default_rng(0)
WEIGHTS = rng.normal(size=(WIDTH, 1)).astype(np.float32)
BATCHES = [(rng.normal(size=(BATCH, WIDTH)).astype(np.float32), rng.normal(size=(BATCH, 1)).astype(np.float32))
           for _ in range(STEPS)]


def step(weights: Any, x: Any, y: Any) -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.tanh(x @ weights) - y) ** 2)
    weights.assign_sub(RATE * tape.gradient(loss, weights))
    return loss


def by_server(ports: list[str]) -> list[float]:
    cluster = tf.train.ClusterSpec({"worker": [f"127.0.0.1:{ports[0]}"], "ps": [f"127.0.0.1:{ports[1]}"]})
    servers = [tf.distribute.Server(cluster, job_name=job, protocol="grpc") for job in ("worker", "ps")]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(WEIGHTS)

    @tf.function
    def train_step(x: Any, y: Any) -> Any:
        return strategy.run(step, (weights, x, y))

    def trained(x: Any, y: Any) -> float:
        return float(coordinator.schedule(train_step, args=(tf.constant(x), tf.constant(y))).fetch())

    losses = [trained(x, y) for x, y in BATCHES]
    assert len(servers) == 2  # alive until here
    return losses


def split_cpu() -> None:
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0],
                                               [tf.config.LogicalDeviceConfiguration()] * 2)


def by_keras() -> list[float]:
    import keras

    split_cpu()
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=["cpu:0", "cpu:1"]))
    model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(1, "tanh", use_bias=False)])
    model.layers[0].kernel.assign(WEIGHTS)
    model.compile(keras.optimizers.SGD(RATE), "mse")
    return [float(model.train_on_batch(x, y)) for x, y in BATCHES]


def by_dtensor() -> list[float]:
    from tensorflow.experimental import dtensor

    split_cpu()
    mesh = dtensor.create_mesh([("batch", 2)], devices=["CPU:0", "CPU:1"])
    rows, whole = (dtensor.Layout([first, dtensor.UNSHARDED], mesh) for first in ("batch", dtensor.UNSHARDED))
    weights = dtensor.DVariable(dtensor.copy_to_mesh(tf.constant(WEIGHTS), whole))
    train_step = tf.function(lambda x, y: step(weights, x, y))

    def spread(value: Any) -> Any:
        return dtensor.pack([tf.constant(half) for half in np.split(value, 2)], rows)

    return [float(train_step(spread(x), spread(y))) for x, y in BATCHES]


HOW = {"server": lambda: by_server(sys.argv[2].split(",")), "dtensor": by_dtensor, "keras": by_keras}
print(json.dumps(HOW[sys.argv[1]]()))
