"""Runs functions with while loops over tensors some of which are empty, and loops that end at once; prints what they
give, or what they raise, as a JSON object by function, signature, shape and number of iterations.

Arguments: how often each is called; "split" for loops that are split as on a GPU; names, for some functions alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

CALLS = int(sys.argv[1])
if "split" in sys.argv:
    from tf_stitch.graph.loops import native_loops

    native_loops.is_split = lambda device: True

Loop = Callable[[Any, Any], Any]
"""Of a matrix and a number of iterations."""

SIGNATURES = {"no size": (None, None), "columns": (None, 5), "all": (0, 5)}
"""What is known of the matrix when the function is traced."""

SHAPES = ((0, 5), (4, 0), (4, 5), (0, 0))
TRIPS = (0, 1, 3)


def rows(x: Any) -> Any:
    return tf.TensorArray(x.dtype, tf.shape(x)[0]).unstack(x)


def row_of_zeros(x: Any) -> Any:
    return tf.zeros(tf.shape(x)[1:])


def residual(x: Any, n: Any) -> Any:
    def body(k: Any, a: Any) -> Any:
        return k + 1, tf.tanh(a * 1.1 + tf.cast(k, tf.float32) * 0.1) - tf.reduce_mean(a)

    return tf.while_loop(lambda k, a: k < n, body, (0, tf.nn.softmax(x) + x))[1] * 0.7


def counted(steps: int) -> Loop:
    return lambda x, n: residual(x, steps)


def by_size(x: Any, n: Any) -> Any:
    return residual(x, tf.shape(x)[0])


def by_data(x: Any, n: Any) -> Any:
    return tf.while_loop(lambda y: tf.reduce_sum(y) < tf.cast(n, tf.float32), lambda y: (y + 1,), (x,),
                         maximum_iterations=4)[0]


def scan(x: Any, n: Any) -> Any:
    return tf.scan(lambda a, row: tf.tanh(a) + row, x, initializer=row_of_zeros(x))


def scan_backwards(x: Any, n: Any) -> Any:
    return tf.scan(lambda a, row: tf.tanh(a) + row, x, initializer=row_of_zeros(x), reverse=True)


def mapped(x: Any, n: Any) -> Any:
    return tf.map_fn(lambda row: tf.nn.softmax(row) * 2, x)


def read_rows(x: Any, n: Any) -> Any:
    given = rows(x)
    return tf.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t + tf.tanh(given.read(i))), (0, row_of_zeros(x)))[1]


def written(x: Any, n: Any) -> Any:
    given, out = rows(x), tf.TensorArray(tf.float32, tf.shape(x)[0])
    out = tf.while_loop(lambda i, o: i < n, lambda i, o: (i + 1, o.write(i, tf.tanh(given.read(i)))), (0, out))[1]
    return out.stack()


def maybe_written(x: Any, n: Any) -> Any:
    """A row of a list is read after the loop only if there is one."""
    given, out = rows(x), tf.TensorArray(tf.float32, tf.shape(x)[0], clear_after_read=False)
    out = tf.while_loop(lambda i, o: i < n, lambda i, o: (i + 1, o.write(i, tf.tanh(given.read(i)))), (0, out))[1]
    return tf.cond(n > 0, lambda: out.read(0), lambda: row_of_zeros(x))


def from_the_end(x: Any, n: Any) -> Any:
    given, out = rows(x), tf.TensorArray(tf.float32, tf.shape(x)[0])

    def body(i: Any, total: Any, out: Any) -> Any:
        total = total + given.read(i)
        return i - 1, total, out.write(i, total)

    return tf.while_loop(lambda i, *_: i >= 0, body, (tf.shape(x)[0] - 1, row_of_zeros(x), out))[1]


def one_element(x: Any, n: Any) -> Any:
    """Of a list every iteration uses the first element."""
    given = tf.TensorArray(tf.float32, tf.shape(x)[0], clear_after_read=False).unstack(x * 2)

    def body(i: Any, total: Any, given: Any) -> Any:
        given = given.write(0, given.read(0) * 0.5)
        return i + 1, total + given.read(0), given

    return tf.while_loop(lambda i, *_: i < n, body, (0, row_of_zeros(x), given))[1]


def read_and_set(x: Any, n: Any) -> Any:
    """The same, reading before it sets."""
    given = tf.TensorArray(tf.float32, tf.shape(x)[0], clear_after_read=False).unstack(x * 2)

    def body(i: Any, total: Any, given: Any) -> Any:
        row = given.read(0)
        return i + 1, total + row, given.write(0, row * 0.5)

    return tf.while_loop(lambda i, *_: i < n, body, (0, row_of_zeros(x), given))[1]


def gathered(x: Any, n: Any) -> Any:
    def body(i: Any, out: Any) -> Any:
        return i + 1, tf.tensor_scatter_nd_update(out, [[i]], [tf.tanh(tf.gather(x, i))])

    return tf.while_loop(lambda i, _: i < n, body, (0, x * 2))[1]


def multiplied(x: Any, n: Any) -> Any:
    weight = tf.reduce_sum(x, 0)[:, None] * tf.ones([1, tf.shape(x)[1]])
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.tanh(y @ weight)), (0, x))[1]


def dynamic_rnn(x: Any, n: Any) -> Any:
    """A cell of one unit: rows are time steps, columns the batch."""
    given, out, lengths = rows(x), tf.TensorArray(tf.float32, tf.shape(x)[0]), tf.range(tf.shape(x)[1])

    def body(t: Any, state: Any, out: Any) -> Any:
        new = tf.tanh(given.read(t) + state)
        alive = t < lengths
        return t + 1, tf.where(alive, new, state), out.write(t, tf.where(alive, new, tf.zeros_like(new)))

    steps = tf.shape(x)[0]
    return tf.while_loop(lambda t, *_: t < steps, body, (0, row_of_zeros(x), out), maximum_iterations=steps)[1]


def nested(x: Any, n: Any) -> Any:
    def inner(y: Any) -> Any:
        return tf.while_loop(lambda j, z: j < n, lambda j, z: (j + 1, tf.sin(z) + 1), (0, y))[1]

    return tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, inner(y)), (0, x))[1]


def in_a_branch(x: Any, n: Any) -> Any:
    return tf.cond(n > 1, lambda: residual(x, n), lambda: x * 2)


def any_of_none(x: Any, n: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        return i + 1, y + tf.cast(tf.reduce_any(y > 0, -1, keepdims=True), tf.float32)

    return tf.while_loop(lambda i, y: i < n, body, (0, x))[1]


def maximum_of_none(x: Any, n: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        return i + 1, y - tf.reduce_max(y, 0, keepdims=True)

    return tf.while_loop(lambda i, y: i < n, body, (0, x))[1]


def growing(x: Any, n: Any) -> Any:
    shapes = (tf.TensorShape([]), tf.TensorShape([None, None]))
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.concat([y, y[:1] * 2], 0)), (0, x),
                         shape_invariants=shapes)[1]


def recurrent(make: Callable[..., Any], **arguments: Any) -> Loop:
    """A Keras layer: rows are the batch, columns time steps."""
    layer = make(5, use_cudnn=False, **arguments)
    layer.build((None, None, 3))
    return lambda x, n: layer(x[:, :, None] * tf.ones([3]))


def functions() -> dict[str, Loop]:
    keras.utils.set_random_seed(1)
    own = (residual, by_size, by_data, scan, scan_backwards, mapped, read_rows, written, maybe_written, from_the_end,
           one_element, read_and_set, gathered, multiplied, dynamic_rnn, nested, in_a_branch, any_of_none,
           maximum_of_none, growing)
    return {
        **{f"counted_{n}": counted(n) for n in TRIPS},
        **{function.__name__: function for function in own},
        "lstm": recurrent(keras.layers.LSTM),
        "lstm_sequences": recurrent(keras.layers.LSTM, return_sequences=True),
        "gru": recurrent(keras.layers.GRU),
    }


def gradient(function: Loop) -> Loop:
    def differentiated(x: Any, n: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x, n)
            loss = tf.reduce_sum(y * y) + tf.reduce_mean(y)
        return loss, tape.gradient(loss, x, unconnected_gradients="zero")

    return differentiated


def signatures() -> Iterator[tuple[str, tuple[int | None, ...], list[tuple[int, ...]]]]:
    """Each with the shapes that fit it."""
    for name, signature in SIGNATURES.items():
        fits = [s for s in SHAPES if all(known in (None, size) for known, size in zip(signature, s, strict=True))]
        yield name, signature, fits


def outcome(function: Any, shape: tuple[int, ...], trips: int) -> Any:
    """Shapes and values, or the error's type and message."""
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    try:
        results = [function(tf.constant(x), tf.constant(trips)) for _ in range(CALLS)][-1]
    except (tf.errors.OpError, ValueError) as error:  # from a run, or while it is traced
        return f"{type(error).__name__}: {error}"
    return [[list(r.shape), np.asarray(r).tolist()] for r in tf.nest.flatten(results)]


if __name__ == "__main__":
    found: dict[str, Any] = {}
    for name, function in functions().items():
        if not set(sys.argv[2:]) - {"split"} or name in sys.argv[2:]:
            for kind, differentiated in (("forward", function), ("gradient", gradient(function))):
                for known, signature, shapes in signatures():
                    specs = [tf.TensorSpec(signature, tf.float32), tf.TensorSpec([], tf.int32)]
                    traced = tf.function(differentiated, input_signature=specs, autograph=False)
                    for shape in shapes:
                        for trips in TRIPS:
                            key = f"{name} {kind}, {known}: {shape}, {trips}"
                            found[key] = outcome(traced, shape, trips)
    print(json.dumps(found))
