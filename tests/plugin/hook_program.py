"""Runs TensorFlow programs under a hook that records what it sees; prints one JSON object. Not a test itself."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.config import load_config
from tf_stitch.graph.graph_item import GraphItem
from tf_stitch.plugin import graph_hook

seen: defaultdict[str, list[GraphItem]] = defaultdict(list)
types: dict[str, list] = {}
errors: list[str] = []
report: dict[str, object] = {}
case = ""
behaviour = "record"


def optimize(item: GraphItem) -> GraphDef | None:
    seen[case].append(item)
    for node in item.graph_def.node:
        if node.op == "Tanh":
            types[case] = item.output_types(node.name)
    if behaviour == "raise":
        raise RuntimeError("a bug in the rewriter")
    if behaviour == "dangle":
        item.graph_def.node[-1].input[0] = "nowhere"
        return item.graph_def
    if behaviour == "double":  # tanh -> abs: visible in the result
        for node in item.graph_def.node:
            if node.op == "Tanh":
                node.op = "Abs"
        return item.graph_def
    return None


def chain(x: tf.Tensor) -> tf.Tensor:
    return tf.tanh(x) * 1.5 + 0.25


def run(name: str, program) -> np.ndarray:
    global case
    case = name
    return np.asarray(program())


x = tf.constant(np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8))
expected = np.tanh(x.numpy()) * 1.5 + 0.25
graph_hook.install(optimize, lambda error: errors.append(str(error)), load_config().cache_dir)

run("function", lambda: tf.function(chain, input_signature=[tf.TensorSpec([None, 8])])(x))

weight = tf.Variable(np.ones((8, 3), np.float32))


@tf.function
def train(x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(chain(x @ weight) ** 2)
    weight.assign_sub(0.1 * tape.gradient(loss, weight))
    return loss


run("train", lambda: train(x))
run("while", lambda: tf.function(
    lambda x: tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, chain(v)), (0, x))[1])(x))  # fmt: skip
run("jit", lambda: tf.function(chain, jit_compile=True)(x))


def session() -> np.ndarray:
    with tf.Graph().as_default(), tf.compat.v1.Session() as one:
        fed = tf.compat.v1.placeholder(tf.float32, [None, 8])
        return one.run(chain(chain(fed)), {fed: x.numpy()})


run("session", session)
run("data", lambda: [v.numpy() for v in tf.data.Dataset.from_tensors(x).map(chain)])


@tf.function
def over(dataset: tf.data.Dataset) -> tf.Tensor:
    total = tf.zeros([4, 8])
    for value in dataset:
        total += chain(value)
    return total


run("loop", lambda: over(tf.data.Dataset.from_tensors(x).repeat(3)))

import keras  # noqa: E402

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
model.compile("adam", "mse")
run("keras", lambda: model.fit(np.ones((8, 8)), np.ones((8, 1)), verbose=0).history["loss"])

with graph_hook.suspended():
    run("suspended", lambda: tf.function(chain)(x))

for behaviour in ("raise", "dangle", "double"):
    result = run(behaviour, lambda: tf.function(chain)(x))
    report[f"{behaviour}_is_tf"] = bool(np.allclose(result, expected))
report["double_is_abs"] = bool(np.allclose(result, np.abs(x) * 1.5 + 0.25))

report["errors"] = errors
report["calls"] = {name: len(items) for name, items in seen.items()}
report["tf_data"] = {name: sorted({item.is_tf_data for item in items}) for name, items in seen.items()}
report["types"] = types
report["ops"] = {name: Counter(n.op for item in items for n in item.graph_def.node) for name, items in seen.items()}
try:
    seen["function"][0].output_types("x")
    report["late"] = "answered"
except Exception as error:
    report["late"] = str(error)
json.dump(report, sys.stdout)
