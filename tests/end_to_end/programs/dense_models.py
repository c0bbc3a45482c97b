"""Steps of dense models, with what a region owns and what it must not disturb. Prints JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tensorflow as tf

from tools.benchmark.region_cases import Workload, adam_step, encoder, mlp

STEPS = 8
RANDOM = np.random.default_rng(7)


def values(*shape: int) -> Any:
    return tf.constant(RANDOM.standard_normal(shape), tf.float32)


def train(name: str, workload: Workload) -> dict[str, Any]:
    """Losses of a few steps, the variables afterwards, and a prediction by a graph of its own that reads them."""
    variables, forward = workload.make()
    step, predict = tf.function(adam_step(variables, forward, 1e-3)), tf.function(forward)
    x, target = values(*workload.shape), values(*workload.shape)
    before = predict(x)
    losses = []
    for i in range(STEPS):
        losses.append(float(step(x, target)))
        if i == 3:  # an update from outside is seen by the next step
            variables[0].assign(variables[0] * 0.5)
    norms = [float(tf.norm(v)) for v in variables]
    return {"name": name, "losses": losses, "norms": norms, "before": float(tf.norm(before)),
            "after": float(tf.norm(predict(x)))}


def mixed_precision() -> dict[str, Any]:
    """A matmul in half precision between casts."""
    weights = tf.Variable(values(48, 48) * 0.1)

    @tf.function
    def forward(x: Any) -> Any:
        y = tf.matmul(tf.cast(x, tf.float16), tf.cast(weights, tf.float16))
        return tf.nn.softmax(tf.cast(y, tf.float32))

    return {"name": "mixed", "losses": [float(tf.reduce_max(forward(values(16, 48)))) for _ in range(STEPS)]}


def loop() -> dict[str, Any]:
    """A matmul and a variable update in the body of a loop."""
    weights, count = tf.Variable(values(32, 32) * 0.1), tf.Variable(0.0)

    @tf.function
    def run(x: Any) -> Any:
        for _ in tf.range(5):
            x = tf.tanh(tf.matmul(x, weights) + 0.1) * 2.0
            count.assign_add(tf.reduce_mean(x))
        return tf.reduce_sum(x)

    return {"name": "loop", "losses": [float(run(values(8, 32))) for _ in range(STEPS)], "norms": [float(count)]}


def other_lengths() -> dict[str, Any]:
    """One function, many lengths."""
    _, forward = encoder(1, 32, 2)()
    call = tf.function(forward, input_signature=[tf.TensorSpec((2, None, 32))])
    return {"name": "lengths", "losses": [float(tf.norm(call(values(2, n, 32)))) for n in (3, 8, 3, 5, 8, 1)]}


def main() -> None:
    results = [train("encoder", Workload(encoder(2, 32, 2), (2, 8, 32))),
               train("mlp", Workload(mlp(32, 32, 32, 32), (16, 32))), mixed_precision(), loop(), other_lengths()]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
