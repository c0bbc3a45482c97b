"""The ways TensorFlow runs a graph. Writes the results of all cases, or of those that are named behind it, to the .npz
file named; does not know of tf_stitch."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras
import numpy as np
import tensorflow as tf

chosen = sys.argv[2:]
results: dict[str, Any] = {}
X = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    if chosen and function.__name__ not in chosen:
        return function
    values = function()
    for i, value in enumerate(values if isinstance(values, list | tuple) else [values]):
        results[f"{function.__name__}.{i}"] = np.asarray(value)
    return function


def chain(x: tf.Tensor) -> tf.Tensor:
    return tf.tanh(x * 1.5 + 0.25) * tf.nn.softmax(x) - tf.reduce_mean(tf.square(x), -1, keepdims=True)


@case
def plain_function() -> Any:
    @tf.function
    def plain_function_graph(x: tf.Tensor) -> tf.Tensor:
        return chain(x)

    return plain_function_graph(X)


@case
def changing_shapes() -> Any:
    @tf.function(input_signature=[tf.TensorSpec([None, 8])])
    def changing_shapes_graph(x: tf.Tensor) -> tf.Tensor:
        return chain(x)

    return [changing_shapes_graph(X[:n]) for n in (1, 3, 6, 2, 0)]


@case
def tape_inside() -> Any:
    weight = tf.Variable(X[:3])

    @tf.function
    def tape_inside_graph(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(chain(tf.matmul(x, weight, transpose_b=True)) ** 2)
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    return [*(tape_inside_graph(X) for _ in range(3)), weight]


@case
def tape_outside() -> Any:
    @tf.function
    def tape_outside_graph(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(chain(x))

    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tape_outside_graph(x)
    return loss, tape.gradient(loss, x)


@case
def while_loop() -> Any:
    @tf.function
    def while_loop_graph(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, chain(v)), (0, x))[1]

    return while_loop_graph(X)


@case
def conditional() -> Any:
    @tf.function
    def conditional_graph(x: tf.Tensor) -> tf.Tensor:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: chain(x), lambda: tf.exp(-x * 0.1) + chain(x) / 3.0)

    return conditional_graph(tf.abs(X)), conditional_graph(-tf.abs(X))


@case
def conditional_update() -> Any:
    total = tf.Variable(tf.zeros([6, 8]))

    @tf.function
    def conditional_update_graph(x: tf.Tensor, go: tf.Tensor) -> tf.Tensor:
        if go:
            total.assign_add(chain(x) * 2.0)
        else:
            total.assign(total * 0.5 - chain(x))
        return total * 1.0 + 1.0

    return [conditional_update_graph(X, tf.constant(go)) for go in (True, False, True)]


@case
def loop_over_array() -> Any:
    @tf.function
    def loop_over_array_graph(x: tf.Tensor) -> tf.Tensor:
        rows = tf.TensorArray(tf.float32, 0, dynamic_size=True)
        state = tf.zeros([8])
        for i in tf.range(tf.shape(x)[0]):
            state = tf.tanh(state * 0.5 + x[i]) + tf.nn.sigmoid(state)
            rows = rows.write(i, state)
        return rows.stack()

    return loop_over_array_graph(X)


@case
def nested_functions() -> Any:
    @tf.function
    def inner(x: tf.Tensor) -> tf.Tensor:
        return chain(x)

    @tf.function(experimental_attributes={"_noinline": True})
    def kept(x: tf.Tensor) -> tf.Tensor:
        return chain(x) + 1.0

    @tf.function
    def nested_functions_graph(x: tf.Tensor) -> tf.Tensor:
        return inner(x) * 2.0 + kept(inner(x)) * 0.5

    return nested_functions_graph(X)


@case
def saved_model() -> Any:
    module = tf.Module()
    module.scale = tf.Variable(2.0)

    @tf.function(input_signature=[tf.TensorSpec([None, 8])])
    def saved_model_graph(x: tf.Tensor) -> tf.Tensor:
        return chain(x) * module.scale

    module.call = saved_model_graph
    before = saved_model_graph(X)  # traced, and rewritten, before it is saved
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder)
        with open(f"{folder}/saved_model.pb", "rb") as file:
            clean = b"Stitch" not in file.read()
        loaded = tf.saved_model.load(folder)
        return before, loaded.call(X), loaded.signatures["serving_default"](tf.constant(X))["output_0"], clean


@case
def session() -> Any:
    with tf.Graph().as_default(), tf.compat.v1.Session() as one:
        fed = tf.compat.v1.placeholder(tf.float32, [None, 8])
        reference = tf.compat.v1.get_variable("reference", [8], use_resource=False, initializer=tf.ones_initializer())
        resource = tf.compat.v1.get_variable("resource", [8], use_resource=True, initializer=tf.ones_initializer())
        loss = tf.reduce_mean(chain(fed * reference + resource))
        train = tf.compat.v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        one.run(tf.compat.v1.global_variables_initializer())
        losses = [one.run([loss, train], {fed: X[:n]})[0] for n in (6, 6, 2)]
        return [*losses, *one.run([reference, resource])]


@case
def fed_values() -> Any:
    """What the graph computes is fed: with what leads to it, and without."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as one:
        fed = tf.compat.v1.placeholder(tf.float32, [None, 8])
        first = chain(fed)
        second = chain(first * 0.5) + first
        scale = tf.constant(2.0) * 1.5
        last = tf.reduce_sum(second * scale, -1)
        feeds = [{fed: X}, {fed: X, first: X}, {first: X}, {second: X}, {first: X[:2], second: X[:2]},
                 {fed: X, scale: 5.0}]  # fmt: skip
        return [one.run(last, feed) for feed in feeds]


@case
def partial_run() -> Any:
    """The second value is fed after the first was fetched."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as one:
        fed, later = (tf.compat.v1.placeholder(tf.float32, shape) for shape in ([None, 8], []))
        first = chain(fed)
        second = tf.reduce_sum(chain(first) * later)
        handle = one.partial_run_setup([first, second], [fed, later])
        return one.partial_run(handle, first, {fed: X}), one.partial_run(handle, second, {later: 3.0})


@case
def compiled_by_xla() -> Any:
    @tf.function(jit_compile=True)
    def compiled_by_xla_graph(x: tf.Tensor) -> tf.Tensor:
        return chain(x)

    @tf.function
    def around_xla(x: tf.Tensor) -> tf.Tensor:
        return chain(compiled_by_xla_graph(x)) + 1.0

    return compiled_by_xla_graph(X), around_xla(X)


@case
def input_pipeline() -> Any:
    def input_pipeline_graph(x: tf.Tensor) -> tf.Tensor:
        return chain(x)

    return list(tf.data.Dataset.from_tensors(X).map(input_pipeline_graph))


@case
def loop_over_dataset() -> Any:
    @tf.function
    def loop_over_dataset_graph(dataset: tf.data.Dataset) -> tf.Tensor:
        total = tf.zeros([6, 8])
        for value in dataset:
            total += chain(value) * 0.5
        return total

    return loop_over_dataset_graph(tf.data.Dataset.from_tensors(X).repeat(3))


@case
def python_function() -> Any:
    @tf.function
    def python_function_graph(x: tf.Tensor) -> tf.Tensor:
        doubled = tf.py_function(lambda v: v * 2.0, [chain(x)], tf.float32)
        return chain(tf.ensure_shape(doubled, [6, 8]))

    return python_function_graph(X)


@case
def special_values() -> Any:
    @tf.function
    def special_values_graph(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        row = tf.reduce_max(x, -1), tf.reduce_sum(x, -1), tf.reduce_min(x, -1)
        # No softmax: oneDNN's gives zeros beside a NaN, where TensorFlow's own kernel gives NaN.
        return tf.tanh(x) * x, tf.maximum(x, 0.0), tf.nn.relu(x) * 1.0, tf.sign(x) * tf.exp(x), x > tf.sqrt(x), *row

    values = X.copy()
    values[0, 0], values[1, 1], values[2, 2], values[3, 3] = np.nan, np.inf, -np.inf, -0.0
    return special_values_graph(values)


@case
def rank_zero() -> Any:
    @tf.function
    def rank_zero_graph(x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(x) * 2.0 + tf.exp(-x)

    return rank_zero_graph(tf.constant(0.7))


@case
def empty_tensors() -> Any:
    @tf.function
    def empty_tensors_graph(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        columns = tf.reduce_sum(x * 2.0 + 1.0, 0), tf.reduce_max(x * 2.0 - 1.0, 0)
        return tf.tanh(x) * 2.0, *columns, tf.reduce_mean(x * 3.0)

    return empty_tensors_graph(tf.zeros([0, 5]))


@case
def element_types() -> Any:
    @tf.function
    def element_types_graph(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum((x * x + x) * x - x, -1)

    dtypes = (tf.float16, tf.bfloat16, tf.float64, tf.int32, tf.int64, tf.uint8)
    return [tf.cast(element_types_graph(tf.cast(tf.abs(X), dtype)), tf.float64) for dtype in dtypes]


@case
def many_threads() -> Any:
    @tf.function(input_signature=[tf.TensorSpec([None, 8])])
    def many_threads_graph(x: tf.Tensor) -> tf.Tensor:
        return chain(x) + chain(x * 0.5)

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda n: many_threads_graph(X[: 1 + n % 6]), range(24)))


@case
def keras_model() -> Any:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((8,)), layers.Dense(16, activation="gelu"), layers.BatchNormalization(), layers.Dropout(0.2),
        layers.LayerNormalization(), layers.Dense(3, activation="softmax")])  # fmt: skip
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.01)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    inputs, labels = np.tile(X, (3, 1)), np.arange(18) % 3
    history = model.fit(inputs, labels, batch_size=4, epochs=3, shuffle=False, verbose=0).history
    evaluated = model.evaluate(inputs, labels, batch_size=5, verbose=0)[0]
    return [*history["loss"], evaluated, model.predict(inputs, verbose=0)]


np.savez(sys.argv[1], **results)
