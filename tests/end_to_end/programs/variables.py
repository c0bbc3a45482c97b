"""Variables beside other users of them: replicas, readers in other threads, checkpoints. Prints results as JSON."""

from __future__ import annotations

import json
import tempfile
import threading

import numpy as np
import tensorflow as tf

CPUS = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(CPUS[0], [tf.config.LogicalDeviceConfiguration()] * 2)
results: dict[str, object] = {}
X = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)


def replicas() -> None:
    """Two replicas on two devices: each has its variables, which have to stay equal."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        weight = tf.Variable(X[:, :4].T.copy() * 0.1)
        momentum = tf.Variable(tf.zeros([4, 8]), trainable=False)

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            y = tf.nn.softmax(tf.matmul(tf.transpose(x), weight, transpose_b=True))
            loss = tf.reduce_mean(tf.square(y * 2.0 - 1.0)) + 0.1 * tf.reduce_mean(tf.tanh(weight) ** 2)
        gradient = tf.distribute.get_replica_context().all_reduce("MEAN", tape.gradient(loss, weight))
        momentum.assign(momentum * 0.9 + tf.clip_by_norm(gradient, 1.0))
        weight.assign_sub(0.5 * momentum + 0.001 * weight)
        return loss

    @tf.function
    def mirrored_graph(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        per_replica = strategy.experimental_distribute_values_from_function(
            lambda context: (a, b)[context.replica_id_in_sync_group])
        return strategy.reduce("MEAN", strategy.run(step, args=(per_replica,)), axis=None)

    losses = [float(mirrored_graph(tf.constant(X), tf.constant(X[::-1].copy()))) for _ in range(30)]
    copies = [v.numpy() for v in strategy.experimental_local_results(weight)]
    results["losses"], results["weight"] = losses, copies[0].ravel().tolist()
    results["replicas_agree"] = bool((copies[0] == copies[1]).all())
    results["devices"] = len({v.device for v in strategy.experimental_local_results(weight)})


def readers() -> None:
    """A reader sees a whole old or a whole new value, and never an older one than before."""
    value = tf.Variable(tf.zeros([1 << 18]))
    other = tf.Variable(tf.zeros([1 << 18]))

    @tf.function
    def readers_graph(x: tf.Tensor) -> None:
        value.assign(value * 1.0 + x)
        other.assign(other + tf.sin(x) * 2.0)

    split_across_regions, backwards = 0, 0
    running = True

    def read() -> None:
        nonlocal split_across_regions, backwards
        last = 0.0
        while running:
            seen = value.numpy()
            split_across_regions += int(seen.min() != seen.max())
            backwards += int(seen[0] < last)
            last = seen[0]

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    kept = []
    for i in range(120):
        if i % 40 == 0:
            kept.append((i, value.read_value()))  # shares the buffer: the update has to leave it alone
        readers_graph(tf.ones([1 << 18]))
    running = False
    for thread in threads:
        thread.join()
    results["split"], results["backwards"] = split_across_regions, backwards
    results["kept"] = [bool((old.numpy() == i).all()) for i, old in kept]
    results["last"] = float(value.numpy()[7])


def two_writers() -> None:
    """Two threads update a variable with assign_add: no update is lost."""
    total, other = tf.Variable(tf.zeros([1000])), tf.Variable(tf.zeros([1000]))

    @tf.function
    def writers_graph(x: tf.Tensor) -> None:
        total.assign_add(tf.tanh(x) * 0.0 + 1.0)
        other.assign_add(tf.cos(x) * 0.0 + 2.0)

    def write() -> None:
        for _ in range(100):
            writers_graph(tf.ones([1000]))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results["added"] = [float(total[3]), float(other[5])]


def checkpoint() -> None:
    weight, slot = tf.Variable(X), tf.Variable(tf.zeros([8, 16]))

    @tf.function
    def checkpoint_graph(x: tf.Tensor) -> None:
        slot.assign(slot * 0.5 + tf.tanh(x * weight))
        weight.assign_sub(slot * 0.1)

    saved = tf.train.Checkpoint(weight=weight, slot=slot)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            checkpoint_graph(tf.constant(X))
        at_save = weight.numpy()
        path = saved.save(f"{folder}/c")
        for _ in range(3):
            checkpoint_graph(tf.constant(X))
        later = weight.numpy()
        saved.restore(path)
        results["restored"] = bool((weight.numpy() == at_save).all())
        for _ in range(3):
            checkpoint_graph(tf.constant(X))
        results["goes_on"] = bool(np.allclose(weight.numpy(), later, rtol=1e-6))
    results["checkpoint"] = weight.numpy().ravel().tolist()
    for _ in range(60):  # with no thread beside it: the profitability check decides
        checkpoint_graph(tf.constant(X))


for part in (replicas, readers, two_writers, checkpoint):
    part()
print(json.dumps(results))
