"""Programs that were wrong once. Each runs eagerly and as a stitched graph; run as a process with TF_STITCH set.

Prints one JSON line a case: whether the results agree, regions found, fallbacks taken.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

CASES: dict[str, Callable[[], Any]] = {}


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    CASES[function.__name__] = function
    return function


def data(*shape: int) -> Any:
    return tf.constant(np.random.RandomState(sum(shape)).randn(*shape).astype("f4"))


@case
def loop_updates_variables() -> Any:
    """The handle a region reads must be that of the loop's frame."""
    v, total = tf.Variable(data(4)), tf.Variable(0.0)

    @tf.function
    def step(x: Any) -> Any:
        for i in tf.range(5):
            v.assign(v * 0.9 + tf.reduce_mean(tf.tanh(x), 0) * 0.1)
            if i % 2 == 0:
                total.assign_add(tf.reduce_sum(v * v))
            x = tf.tanh(x + v)
        return x, v + 1.0

    return [step(data(3, 4)), step(data(3, 4)), v, total]


def recurrent(*layers: Any) -> Any:
    model = keras.Sequential([keras.layers.Input((None,)), keras.layers.Embedding(10, 4, mask_zero=True), *layers,
                              keras.layers.Dense(2, activation="softmax")])
    optimizer = keras.optimizers.Adam(0.01)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x, training=True)))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    x, y = tf.constant([[1, 2, 3, 0, 0], [4, 5, 0, 0, 0], [1, 2, 3, 4, 5]]), tf.constant([0, 1, 1])
    return [step(x, y), step(x, y), model.trainable_variables]


@case
def region_around_a_loop() -> Any:
    """What follows a loop must not share a region with what goes into it."""
    return recurrent(keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True)), keras.layers.GRU(3))


@case
def update_ordered_after_a_read() -> Any:
    """A read that only a control edge ties to a later update may not be cut out from between two updates."""
    w, m = tf.Variable(data(4, 4)), tf.Variable(tf.zeros([4, 4]))

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.tanh(x @ w) ** 2)
        m.assign(0.9 * m + tape.gradient(loss, w))
        w.assign_sub(0.1 * m)
        middle = x @ w
        w.assign_add(tf.sin(w) * 0.01)
        return loss, middle, tf.nn.softmax(x @ w)

    return [step(data(3, 4)), step(data(3, 4)), w, m]


@case
def constant_that_carries_order() -> Any:
    """Grappler hangs control edges on constants: a region that copies the constant has to follow them."""
    count, v = tf.Variable(1.0), tf.Variable(data(4))

    @tf.function
    def step(x: Any) -> Any:
        a = tf.linalg.matvec(tf.reshape(x, [2, 2]), tf.exp(count * 0.1 + tf.zeros([2])))
        with tf.control_dependencies([v.assign_add(tf.concat([a, a], 0))]):
            count.assign(tf.constant(1.5) * count + 1.0)
        with tf.control_dependencies([tf.raw_ops.AssignVariableOp(resource=v.handle, value=v * 2.0)]):
            tf.raw_ops.AssignAddVariableOp(resource=count.handle, value=tf.constant(0.25))
        return a * 2.0 + 1.0

    return [[step(data(4)) for _ in range(4)], count, v]


@case
def legacy_optimizer() -> Any:
    import tf_keras

    tf_keras.utils.set_random_seed(3)
    model = tf_keras.Sequential([tf_keras.layers.Dense(8, input_shape=(8,), use_bias=False), tf_keras.layers.ReLU(),
                                 tf_keras.layers.Dense(3, activation="softmax")])
    model.compile(tf_keras.optimizers.legacy.Nadam(0.01), "sparse_categorical_crossentropy", jit_compile=False)
    losses = [model.train_on_batch(data(7, 8), np.array([0, 1, 2, 0, 1, 2, 1])) for _ in range(3)]
    return [losses, model.get_weights(), [v.numpy() for v in model.optimizer.variables()]]


@case
def one_variable_twice() -> Any:
    """As an argument and as a capture: the graph has two handles, the step one variable."""
    v, u = tf.Variable(data(4)), tf.Variable(data(4) * 2.0)

    @tf.function
    def step(a: Any, x: Any) -> Any:
        y = tf.exp(x) * 2.0
        a.assign_add(tf.tanh(x))
        v.assign_add(tf.sin(x) * y)
        return y + x

    return [step(u, data(4)), step(v, data(4)), v, u]


@case
def variable_of_any_length() -> Any:
    v = tf.Variable(data(1, 4), shape=tf.TensorShape([None, 4]))

    @tf.function
    def step(x: Any) -> Any:
        v.assign(v * 2.0 + tf.tanh(x))
        return v * 1.5 + 1.0

    return [step(data(3, 4)), step(data(3, 4)), step(data(1, 4)), v]


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """The result, or 1 where TensorFlow's own error comes out."""
    try:
        return function(*args)
    except tf.errors.InvalidArgumentError as error:
        if "tf_stitch:" in error.message:
            raise AssertionError(error.message) from error
        return 1


def signature(*specs: Any) -> Callable[[Callable[..., Any]], Any]:
    return tf.function(input_signature=[tf.TensorSpec(shape, dtype) for shape, dtype in specs])


@case
def errors_of_the_user() -> Any:
    v = tf.Variable(tf.ones([3]))

    @signature(((None, 4), tf.float32), ((None,), tf.int32))
    def gather(x: Any, i: Any) -> Any:
        return tf.tanh(tf.gather(tf.exp(x), i)) * 2.0 + 1.0

    @signature(((None, None), tf.float32))
    def reshape(x: Any) -> Any:
        v.assign(v * 2.0 + 1.0)
        return tf.tanh(tf.reshape(tf.exp(x) * 2.0, [-1, 4])) + 1.0

    @signature(((None, None, 4), tf.float32))
    def squeeze(x: Any) -> Any:
        return tf.squeeze(tf.tanh(x) * 2.0, [1]) + 1.0

    return [outcome(gather, data(3, 4), [0, 2]), outcome(gather, data(3, 4), [0, 7]), outcome(gather, data(3, 4), [2]),
            outcome(reshape, data(2, 4)), outcome(reshape, data(2, 3)), outcome(reshape, data(4, 3)),
            outcome(squeeze, data(2, 1, 4)), outcome(squeeze, data(2, 3, 4))]


@case
def sizes_that_broadcast_at_run_time() -> Any:
    @signature(((None, 4), tf.float32), ((None, 4), tf.float32))
    def function(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            loss = tf.reduce_sum(tf.square(tf.exp(x * 0.1) + tf.tanh(y)))
        return loss, tape.gradient(loss, [x, y]), tf.nn.softmax(x + y * 2.0)

    return [function(data(a, 4), data(b, 4)) for a, b in ((3, 3), (3, 1), (1, 3), (1, 1), (5, 5))]


@case
def sizes_of_padded_blocks() -> Any:
    """TensorFlow's inference calls rows and columns equal where paddings are no constants."""

    @signature(((None,) * 4, tf.float32), ((2, 2), tf.int32))
    def blocks(x: Any, pads: Any) -> Any:
        y = tf.space_to_batch(x, [2, 2], pads) * 2.0
        return tf.shape(y) + 0, tf.broadcast_to(tf.reduce_sum(y), tf.shape(y)) + 1.0

    @signature(((None,) * 4, tf.float32))
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.atrous_conv2d(x, tf.ones([3, 3, 1, 1]), 2, "SAME")
            loss = tf.reduce_sum(y * y)
        return tape.gradient(loss, x), tf.shape(y)

    return blocks(data(1, 8, 4, 1), tf.zeros([2, 2], tf.int32)), gradient(data(1, 7, 6, 1))


@case
def sizes_of_off_diagonals() -> Any:
    """TensorFlow's inference has a matrix with a diagonal of unknown length below its own have no rows."""

    @signature(((None, None), tf.float32))
    def function(x: Any) -> Any:
        y = tf.linalg.diag(x * 2.0, k=-1) * 2.0 + 1.0
        return tf.shape(y) + 0, tf.broadcast_to(tf.reduce_sum(y), tf.shape(y)) + 1.0

    return function(data(2, 3))


@case
def sizes_of_parts_along_an_unknown_axis() -> Any:
    """TensorFlow's inference has a split along an axis that it does not know be along the last."""

    @signature(((None, None), tf.float32), ((), tf.int32))
    def function(x: Any, axis: Any) -> Any:
        first, second = (part * 3.0 + 1.0 for part in tf.split(x * 2.0, [1, 3], axis))
        return tf.shape(first) + 0, tf.shape(second) + 0, tf.broadcast_to(tf.reduce_sum(first), tf.shape(first)) + 1.0

    return function(data(4, 6), tf.constant(0))


@case
def losses_of_labels_that_are_broadcast() -> Any:
    """TensorFlow's inference calls the logits' and the labels' rows equal."""

    @signature(((None, 3), tf.float32), ((None, 3), tf.float32))
    def function(logits: Any, labels: Any) -> Any:
        logits, labels = tf.cumsum(tf.exp(logits)), tf.cumsum(tf.exp(labels))
        losses, _ = tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=logits, labels=labels)
        count = [tf.cast(tf.shape(x)[0], tf.float32) for x in (logits, labels, losses)]
        return tf.reduce_sum(labels) / count[1], tf.reduce_sum(logits) / count[0], tf.reduce_sum(losses) / count[2]

    return function(data(1, 3), data(4, 3)), function(data(4, 3), data(1, 3))


@case
def sizes_of_a_gradient_of_another_batch() -> Any:
    """TensorFlow's inference gives the gradient of a bicubic resize the image's batch, the kernel the gradient's."""

    @signature(((None,) * 4, tf.float32), ((None,) * 4, tf.float32))
    def function(gradient: Any, image: Any) -> Any:
        y = tf.raw_ops.ResizeBicubicGrad(grads=tf.tanh(gradient), original_image=image) * 2.0 + 1.0
        return tf.shape(y) + 0, tf.shape(image) + 1

    return function(data(4, 3, 3, 2), data(3, 6, 6, 2))


@case
def empty_part_beside_full_ones() -> Any:
    """As ctc_loss moves the blank, its last class, to the front: what is behind the last class is empty."""
    v = tf.Variable(data(4))

    @signature(((None, 4), tf.float32))
    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.exp(x * 0.1) * v
            loss = tf.reduce_sum(tf.tanh(tf.concat([y[:, -1:], y[:, :-1], y[:, 4:]], 1)) * v)
        gradients = tape.gradient(loss, [x, v])
        v.assign(v * 0.9 + gradients[1] * 0.1)
        return loss, gradients

    return [function(data(3, 4)), function(data(5, 4)), v]


@case
def many_variables_only_written() -> Any:
    """They cannot be in a region, and must not keep those out that are read and assigned."""
    moving = [tf.Variable(data(8) + float(i)) for i in range(12)]
    written = [tf.Variable(data(8)) for _ in range(12)]

    @tf.function
    def step(x: Any) -> None:
        for i in range(12):
            moving[i].assign(moving[i] * 0.9 + x * 0.1)
            written[i].assign(x * 2.0 + float(i))

    step(data(8))
    step(data(8) * 2.0)
    return [*moving, *written]


def same(a: Any, b: Any) -> bool:
    a, b = tf.nest.flatten(a), tf.nest.flatten(b)
    return len(a) == len(b) and all(np.shape(x) == np.shape(y) and np.allclose(x, y, rtol=1e-4, atol=1e-5)
                                    for x, y in zip(a, b, strict=True))


def values(result: Any) -> Any:
    return tf.nest.map_structure(lambda x: x.numpy() if hasattr(x, "numpy") else np.asarray(x), result)


def main() -> None:
    from tf_stitch.plugin.activation import current_session

    session = current_session()
    assert session is not None
    report = session.report
    for name, function in CASES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        results = []
        regions, fallbacks = report.regions_seen, len(report.document()["fallbacks"])
        for eager in (True, False):
            keras.utils.set_random_seed(7)
            tf.config.run_functions_eagerly(eager)
            results.append(values(function()))
        taken = report.document()["fallbacks"][fallbacks:]
        print(json.dumps({"case": name, "same": same(*results), "regions": report.regions_seen - regions,
                          "fallbacks": [f"{f['stage']}: {f['reason']}" for f in taken]}), flush=True)


if __name__ == "__main__":
    main()
