"""One of two workers that train a model together: prints its losses and a digest of its variables. Arguments: its
number, the workers' ports, steps, the step before which worker 1 leaves (-1: never), and how: "exit" or "killed"."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from typing import Any

NUMBER, PORTS, STEPS, LEAVES = int(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3]), int(sys.argv[4])
os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": [f"127.0.0.1:{port}" for port in PORTS]},
                                      "task": {"type": "worker", "index": NUMBER}})

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rng = np.random.default_rng(0)


def initial(*shape: int) -> tf.Variable:
    return tf.Variable(rng.normal(0, 0.3, shape).astype(np.float32))


with strategy.scope():
    table, wide, out = initial(50, 8), initial(8, 16), initial(16, 1)
    variables = [table, wide, out]
    moments = [tf.Variable(tf.zeros_like(v)) for v in variables]


def replica_step(rows: Any, wanted: Any) -> Any:
    with tf.GradientTape() as tape:
        hidden = tf.tanh(tf.reduce_mean(tf.gather(table, rows), 1) @ wide)
        loss = tf.reduce_mean((hidden @ out - wanted) ** 2)
    replica = tf.distribute.get_replica_context()
    gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]
    summed = replica.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
    for value, moment, gradient in zip(variables, moments, summed, strict=True):
        moment.assign(0.9 * moment + gradient)
        value.assign_sub(0.05 * moment)
    return replica.all_reduce(tf.distribute.ReduceOp.MEAN, loss)


@tf.function(input_signature=[tf.TensorSpec([8, 3], tf.int32), tf.TensorSpec([8, 1])])
def train_step(rows: Any, wanted: Any) -> Any:
    return strategy.experimental_local_results(strategy.run(replica_step, (rows, wanted)))[0]


own = np.random.default_rng(1 + NUMBER)
losses = []
for step in range(STEPS):
    if NUMBER == 1 and step == LEAVES:
        if sys.argv[5] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(3)
    rows, wanted = own.integers(0, 50, (8, 3)).astype(np.int32), own.normal(size=(8, 1)).astype(np.float32)
    try:
        losses.append(float(train_step(tf.constant(rows), tf.constant(wanted))))
    except tf.errors.OpError as error:
        print(json.dumps({"error": type(error).__name__, "steps": len(losses)}), flush=True)
        os._exit(4)  # the strategy's own end would wait for the other
state = b"".join(strategy.experimental_local_results(v)[0].numpy().tobytes() for v in (*variables, *moments))
print(json.dumps({"losses": losses, "state": hashlib.sha256(state).hexdigest()}))
