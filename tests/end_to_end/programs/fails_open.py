"""Plants an exception behind every stage of the rewriting, one after the other, and prints what functions give then.

    python fails_open.py    a JSON object: stage -> whether results are TensorFlow's, and whether the stage was reached
"""

import json
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
VARIABLE = tf.Variable(np.ones((6, 6), np.float32))


def make() -> Callable[[Any], Any]:
    """A loop, a branch, a gradient, a size read late, and an update; traced anew for each stage."""
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            h = tf.nn.softmax(tf.exp(x) @ VARIABLE) + x
            _, y = tf.while_loop(lambda i, _: i < tf.shape(x)[0], lambda i, a: (i + 1, tf.tanh(a) * 1.1), (0, h))
            z = tf.cond(tf.reduce_sum(y) > 0, lambda: tf.roll(y, 1, 0) * 2, lambda: -y)
            drawn = tf.random.stateless_uniform(tf.shape(tf.exp(z)), [1, 2])
            loss = tf.reduce_mean(z * drawn + tf.exp(-z))
        gradient = tape.gradient(loss, VARIABLE)
        VARIABLE.assign_sub(0.1 * gradient)
        return loss, gradient, z

    return tf.function(step, input_signature=[tf.TensorSpec([None, 6])], autograph=False)


def result(function: Callable[[Any], Any]) -> list[Any]:
    VARIABLE.assign(np.eye(6, dtype=np.float32) + 0.5)
    return [np.asarray(t) for _ in range(2) for t in (*function(X), VARIABLE)]


def failing(real: Any, reached: list[str], stage: str) -> Any:
    def fail(*args: Any, **kwargs: Any) -> Any:
        real(*args, **kwargs)
        reached.append(stage)
        raise RuntimeError(f"planted behind {stage}")

    return fail


def main() -> None:
    tf.config.run_functions_eagerly(True)
    want = result(make())
    tf.config.run_functions_eagerly(False)
    outcome = {}
    try:
        from tf_stitch.config import StitchConfig
        from tf_stitch.graph import pipeline
        from tf_stitch.graph.clustering.controls import Controls
        from tf_stitch.graph.finish import validation
        from tf_stitch.plugin import session
    except ImportError:
        return
    options = pipeline.GraphOptions.by(StitchConfig(), "CPU", True, {}, Controls(StitchConfig()))
    passes = (*pipeline.graph_passes(options), *pipeline.finishing_passes(GraphDef(), {}))
    stages: dict[str, tuple[Any, str]] = {p.name: (type(p), "run") for p in passes}
    stages |= {"find": (pipeline.Clustering, "find"), "fallback_subgraph": (pipeline, "fallback_subgraph"),
               "apply": (pipeline.Clustering, "apply"),
               "number_regions": (session, "number_regions"), "seen": (session.Session, "_seen"),
               "validate_graph": (validation, "validate_graph")}
    for stage, (owner, name) in stages.items():
        reached: list[str] = []
        with mock.patch.object(owner, name, failing(getattr(owner, name), reached, stage)):
            got = result(make())
        same = all(a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-6)
                   for a, b in zip(got, want, strict=True))
        outcome[stage] = {"same": same, "reached": bool(reached)}
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
