"""Functions with while loops as programs have them, for tests of what becomes of the loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.python.xla import dynamic_update_slice

F32, I32 = np.float32, np.int32


@dataclass(frozen=True)
class LoopCase:
    """A function of arrays.

    Attributes:
        ops: how many of its loops run as one op.
        stay: words of the reasons why the others do not.
        sizes: for each argument whether its first size is known when the function is traced.
    """

    function: Callable[..., Any]
    arrays: Sequence[Any]
    ops: int
    stay: tuple[str, ...] = ()
    sizes: bool = True

    def specs(self) -> list[tf.TensorSpec]:
        shapes = [np.shape(a) if self.sizes else (None, *np.shape(a)[1:]) for a in self.arrays]
        return [tf.TensorSpec(shape, np.asarray(a).dtype) for shape, a in zip(shapes, self.arrays, strict=True)]


def state_of_another_shape(x: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
    """From the second iteration on the state has one element, which its gradient's list then has, too."""
    return tf.scan(lambda _, row: tf.reduce_prod(row, keepdims=True), x, first)


def floats(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(F32)


def rows(x: Any) -> tf.TensorArray:
    return tf.TensorArray(x.dtype, tf.shape(x)[0], element_shape=x.shape[1:]).unstack(x)


def counted(steps: int) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        return tf.while_loop(lambda i, y: i < steps, lambda i, y: (i + 1, tf.tanh(y) * tf.cast(i, F32)), (0, x))

    return function


def until(x: Any) -> Any:
    return tf.while_loop(lambda y: tf.reduce_sum(y) < 50, lambda y: (y + 1,), (x,))


def fibonacci(n: Any) -> Any:
    zero, one = tf.constant(0, tf.int64), tf.constant(1, tf.int64)
    return tf.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a + b), (0, zero, one))


def scan(x: Any) -> Any:
    return tf.scan(lambda a, row: tf.tanh(a) + row, x, initializer=tf.zeros(x.shape[1:]))


def scan_backwards(x: Any) -> Any:
    return tf.scan(lambda a, row: tf.tanh(a) + row, x, initializer=tf.zeros([3]), reverse=True)


def mapped(x: Any) -> Any:
    return tf.map_fn(lambda row: tf.nn.softmax(row) * 2, x)


def every_second(x: Any) -> Any:
    """Rows between those that are written are zeros."""
    given, out = rows(x), tf.TensorArray(F32, 6, element_shape=[3])
    return tf.while_loop(lambda i, o: i < 6, lambda i, o: (i + 2, o.write(i, given.read(i) * 2)), (0, out))[1].stack()


def growing_rows(x: Any) -> Any:
    """A tf.TensorArray of dynamic size, as AutoGraph's programs fill it."""
    given, count, step = rows(x), tf.shape(x)[0], tf.constant(1)
    out = tf.TensorArray(F32, 0, dynamic_size=True, element_shape=[3])

    def body(i: Any, n: Any, total: Any, out: Any) -> Any:
        total = tf.tanh(total + given.read(i))
        return i + n, n, total, out.write(i, total)

    return tf.while_loop(lambda i, *_: i < count, body, (0, step, tf.zeros([3]), out))[3].stack()


def growing_from_the_end(x: Any) -> Any:
    given, out = rows(x), tf.TensorArray(F32, 0, dynamic_size=True, element_shape=[3])
    return tf.while_loop(lambda i, _: i >= 0, lambda i, o: (i - 1, o.write(i, given.read(i) * 2)), (5, out))[1].stack()


def from_the_end(x: Any) -> Any:
    given, out = rows(x), tf.TensorArray(F32, 6, element_shape=[3])

    def body(i: Any, total: Any, out: Any) -> Any:
        total = total + given.read(i)
        return i - 1, total, out.write(i, total)

    return tf.while_loop(lambda i, *_: i >= 0, body, (5, tf.zeros([3]), out))[2].stack()


def by_indices(x: Any, order: Any) -> Any:
    """Rows in an order that is a list, too."""
    given, places = rows(x), rows(order)
    out = tf.TensorArray(F32, 6, element_shape=[3])

    def body(i: Any, total: Any, out: Any) -> Any:
        place = places.read(i)
        total = total + given.read(place)
        return i + 1, total, out.write(place, total)

    return tf.while_loop(lambda i, *_: i < 6, body, (0, tf.zeros([3]), out))[2].stack()


def by_indices_of_indices(x: Any, order: Any) -> Any:
    given, places = rows(x), rows(order)
    return tf.while_loop(lambda i, total: i < 6, lambda i, total: (
        i + 1, total + given.read(places.read(places.read(i)))), (0, tf.zeros([3])))


def dynamic_rnn(x: Any, lengths: Any) -> Any:
    """As TensorFlow 1 ran cells: past its length a row's output is 0, and its state stays. x: [time, batch, width]."""
    weight = tf.constant(floats(3, 3))
    given, out = rows(x), tf.TensorArray(F32, tf.shape(x)[0], element_shape=[2, 3])

    def body(t: Any, state: Any, out: Any) -> Any:
        new = tf.tanh(given.read(t) + state @ weight)
        alive = (t < lengths)[:, None]
        return t + 1, tf.where(alive, new, state), out.write(t, tf.where(alive, new, tf.zeros_like(new)))

    state = (0, tf.zeros([2, 3]), out)
    _, state, out = tf.while_loop(lambda t, *_: t < tf.shape(x)[0], body, state, maximum_iterations=tf.shape(x)[0])
    return out.stack(), state


def attention(x: Any) -> Any:
    """A state reads from rows, by a bias for each, what the next one is made of. Its gradient asks in every iteration
    for the shapes of what was added."""
    bias = tf.reduce_sum(x, 1)

    def body(i: Any, state: Any) -> Any:
        weights = tf.nn.softmax(tf.reduce_sum(x * state, 1) + bias)
        return i + 1, tf.tanh(tf.reduce_sum(x * weights[:, None], 0))

    return tf.while_loop(lambda i, _: i < 4, body, (0, tf.ones([3])))[1]


def cast_weights(x: Any, weight: Any, table: Any) -> Any:
    """As layers cast their variables: a weight that is multiplied, and a table of which a row is read."""

    def body(i: Any, y: Any) -> Any:
        row = tf.gather(tf.cast(table, tf.float64), i)
        return i + 1, tf.tanh(y @ tf.identity(tf.cast(weight, tf.float64)) + row)

    return tf.cast(tf.while_loop(lambda i, y: i < 4, body, (0, tf.cast(x, tf.float64)))[1], F32)


def greedy(start: Any) -> Any:
    """Decoding until every row has ended."""
    words, out = tf.constant(floats(20, 8)), tf.constant(floats(8, 20))

    def body(place: Any, text: Any, last: Any) -> Any:
        best = tf.argmax(tf.gather(words, last) @ out, -1, tf.int32)
        best = tf.where(last == 7, 7, best)
        return place + 1, text + best[:, None] * tf.one_hot(place, 12, dtype=tf.int32), best

    state = (0, tf.zeros([tf.shape(start)[0], 12], tf.int32), start)
    return tf.while_loop(lambda i, text, last: (i < 12) & tf.reduce_any(last != 7), body, state)


def beam_search(score: Any) -> Any:
    """The three best texts of five words, of seven, where what a word costs depends on the one before."""
    costs = tf.constant(floats(7, 7))

    def body(i: Any, texts: Any, last: Any, score: Any) -> Any:
        total = tf.reshape(score[:, None] + tf.gather(costs, last), [-1])
        score, found = tf.nn.top_k(total, 3)
        last = found % 7
        texts = tf.gather(texts, found // 7) + last[:, None] * tf.one_hot(i, 5, dtype=tf.int32)
        return i + 1, texts, last, score

    state = (0, tf.zeros([3, 5], tf.int32), tf.zeros([3], tf.int32), score)
    return tf.while_loop(lambda i, *_: i < 5, body, state)


def nested(x: Any) -> Any:
    def inner(y: Any) -> Any:
        return tf.while_loop(lambda j, z: j < 3, lambda j, z: (j + 1, tf.sin(z) + 1), (0, y))[1]

    return tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, inner(y)), (0, x))


def in_a_branch(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: counted(3)(x)[1], lambda: x)


def left_early(x: Any) -> Any:
    total, count = tf.constant(0.0), 0
    for value in x:
        if value > 1.0:
            break
        total, count = total + value * value, count + 1
    return total, count


def growing(x: Any) -> Any:
    shapes = (tf.TensorShape([]), tf.TensorShape([None, 3]))
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.concat([y, y[:1]], 0)), (0, x),
                         shape_invariants=shapes)


def random(x: Any) -> Any:
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 0 + tf.random.uniform([4, 3], 1, 1)), (0, x))


def ctc(logits: Any, labels: Any, counts: Any, lengths: Any) -> Any:
    """Its loops are While ops, which TensorFlow does not lower."""
    return tf.nn.ctc_loss(labels, logits, counts, lengths, logits_time_major=False, blank_index=4)


def prefetched_rows(x: Any) -> Any:
    """Rows are read by a counter that counts down, and written some rows ahead of it, over those of another tensor."""
    @tf.function
    def condition(i: Any, out: Any, x: Any) -> Any:
        return i > 0

    @tf.function
    def body(i: Any, out: Any, x: Any) -> Any:
        row = tf.tanh(tf.gather(x, i - 1))
        return i - 1, tf.tensor_scatter_nd_update(out, [[i + 2]], [row]), x

    start = (tf.constant(4), tf.ones([7, 3]), x)
    types = [tf.TensorSpec(s.shape, s.dtype) for s in start]
    return tf.raw_ops.While(input=start, cond=condition.get_concrete_function(*types),
                            body=body.get_concrete_function(*types))[1]


def gathered(x: Any) -> Any:
    """Rows of a tensor are looked up by a counter, and become rows of another."""
    def body(i: Any, out: Any) -> Any:
        return i + 1, tf.tensor_scatter_nd_update(out, [[i]], [tf.tanh(tf.gather(x, i))])

    return tf.while_loop(lambda i, _: i < 3, body, (1, tf.ones([4, 3])))[1]


def cached(x: Any) -> Any:
    """Each of two layers writes a row of a cache at a counter, and reads all rows."""
    def body(i: Any, cache: Any, x: Any) -> Any:
        layers = []
        for layer in range(2):
            row = tf.tanh(x)[:, None]
            new = keras.ops.slice_update(cache[:, layer], [0, i, 0], row)
            x = tf.reduce_mean(new, 1) + x
            layers.append(new)
        return i + 1, tf.stack(layers, 1), x

    return tf.while_loop(lambda i, *_: i < 9, body, (2, tf.ones([4, 2, 16, 3]), x))[1:]


def overwritten(x: Any) -> Any:
    """A tensor is read as soon as a row of it is overwritten: it is no list."""
    def body(i: Any, out: Any, total: Any) -> Any:
        out = tf.tensor_scatter_nd_update(out, [[i]], [tf.gather(x, i)])
        return i + 1, out, total + tf.reduce_sum(out)

    return tf.while_loop(lambda i, *_: i < 3, body, (1, tf.ones([4, 3]), 0.0))[1:]


def tables(x: Any) -> Any:
    """Rows are looked up by data, and a tensor is overwritten that is read, too: neither is a list."""
    @tf.function
    def condition(i: Any, out: Any, x: Any) -> Any:
        return i < 4

    @tf.function
    def body(i: Any, out: Any, x: Any) -> Any:
        row = tf.gather(x, tf.cast(tf.reduce_max(out), tf.int32) % 4)
        return i + 1, tf.tensor_scatter_nd_update(out, [[i]], [row]), x

    start = (tf.constant(0), tf.ones([5, 3]), x)
    types = [tf.TensorSpec(s.shape, s.dtype) for s in start]
    return tf.raw_ops.While(input=start, cond=condition.get_concrete_function(*types),
                            body=body.get_concrete_function(*types))[1]


def with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of the squares of what a function of an array gives, and its gradient."""

    def differentiated(x: Any, *others: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.add_n([tf.reduce_sum(y * y) for y in tf.nest.flatten(function(x, *others))
                             if y.dtype.is_floating])
        return loss, tape.gradient(loss, x)

    return differentiated


def layer(make: Callable[[], Any], train: bool = False, **arguments: Any) -> Callable[[Any], Any]:
    """A Keras layer over [2, 6, 3]; `train`: the gradients of its weights."""

    @cache
    def made() -> Any:
        """When it is called first: its variables start TensorFlow's threads (see tests/support/workers.py)."""
        with tf.init_scope():
            keras.utils.set_random_seed(1)
            built = make()
            built.build((2, 6, 3))
        return built

    def run(x: Any) -> Any:
        return made()(x, training=train, **arguments)

    def gradients(x: Any) -> Any:
        weights = [tf.identity(v) for v in made().trainable_variables]
        with tf.GradientTape() as tape:
            tape.watch(weights)
            state = [v.value for v in made().non_trainable_variables]
            loss = tf.reduce_sum(made().stateless_call(weights, state, x, training=True, **arguments)[0] ** 2)
        return [loss, *tape.gradient(loss, weights)]

    return gradients if train else run


def lstm(**arguments: Any) -> Any:
    return keras.layers.LSTM(5, use_cudnn=False, **arguments)


def gru(**arguments: Any) -> Any:
    return keras.layers.GRU(5, use_cudnn=False, **arguments)


def utterances() -> list[Any]:
    """Logits of frames, labels, and how many there are of each."""
    return [floats(3, 11, 5), np.array([[0, 1, 1], [3, 2, 0], [2, 0, 0]], I32), np.array([3, 2, 1], I32),
            np.array([11, 7, 4], I32)]


def sliced(x: Any) -> Any:
    """Reads and writes what lies at a counter, as a decoder its cache: each column is made of those before it."""
    length = x.shape[1]

    def body(at: Any, x: Any) -> tuple[Any, Any]:
        new = tf.slice(x, [0, at], [x.shape[0], 1]) * 0.5 + x[:, at, None]
        return at + 1, dynamic_update_slice(x, new, tf.stack([0, at + 1]))

    return tf.while_loop(lambda at, _: at < length - 1, body, (0, x))[1]


def sliced_words(words: Any) -> Any:
    """A text that goes on by what a table says of its last word."""
    table = tf.constant(floats(7, 7))

    def body(at: Any, words: Any) -> tuple[Any, Any]:
        last = tf.gather(table, tf.slice(words, [0, at], [words.shape[0], 1]))
        word = tf.argmax(last[:, 0], axis=-1, output_type=tf.int32)
        return at + 1, dynamic_update_slice(words, word[:, None], tf.stack([0, at + 1]))

    return tf.while_loop(lambda at, _: at < words.shape[1] - 1, body, (0, words))[1]


def sliced_by_data(x: Any) -> Any:
    """Where it reads is data."""
    def body(at: Any, y: Any) -> tuple[Any, Any]:
        return at + 1, y + x[:, tf.argmax(y, output_type=tf.int32)]

    return tf.while_loop(lambda at, _: at < 3, body, (0, x[:, 0]))[1]


def cases() -> dict[str, LoopCase]:
    """All of them by name."""
    x, steps, series = floats(4, 3), floats(6, 3), floats(2, 6, 3)
    mask = np.array([[True] * 4 + [False] * 2, [True] * 2 + [False] * 4])
    lengths = np.array([3, 5], I32)
    return {
        **{f"counted_{n}": LoopCase(counted(n), [x], 1) for n in (0, 1, 2, 5)},
        "until": LoopCase(until, [x], 1),
        "unknown_rows": LoopCase(until, [x], 1, sizes=False),
        "fibonacci": LoopCase(fibonacci, [np.int32(13)], 1),
        "scan": LoopCase(scan, [steps], 1),
        "scan_unknown_length": LoopCase(scan, [steps], 1, sizes=False),
        "scan_backwards": LoopCase(scan_backwards, [steps], 1),
        "scan_gradient": LoopCase(with_gradients(scan), [steps], 2),
        "scan_gradient_unknown_length": LoopCase(with_gradients(scan), [steps], 2, sizes=False),
        "scan_rows_that_align_nothing": LoopCase(with_gradients(scan), [floats(5, 1001)], 2),
        "state_of_another_shape": LoopCase(with_gradients(state_of_another_shape), [steps, floats(3)], 0,
                                           ("different shapes",), sizes=False),
        "map": LoopCase(mapped, [steps], 1),
        "map_gradient": LoopCase(with_gradients(mapped), [steps], 2),
        "every_second": LoopCase(every_second, [steps], 1),
        "growing_rows": LoopCase(growing_rows, [steps], 1),
        "growing_rows_unknown_length": LoopCase(growing_rows, [steps], 1, sizes=False),
        "growing_rows_gradient": LoopCase(with_gradients(growing_rows), [steps], 0, ("TensorArrayV2Write",)),
        "growing_from_the_end": LoopCase(growing_from_the_end, [steps], 0, ("decided by where it is written",)),
        "from_the_end": LoopCase(from_the_end, [steps], 1),
        "from_the_end_gradient": LoopCase(with_gradients(from_the_end), [steps], 2),
        "by_indices": LoopCase(by_indices, [steps, np.array([3, 0, 5, 1, 4, 2], I32)], 1),
        "by_indices_gradient": LoopCase(with_gradients(by_indices), [steps, np.array([3, 0, 5, 1, 4, 2], I32)], 1,
                                        ("what the loop has set to zeros",)),
        "by_indices_of_indices": LoopCase(by_indices_of_indices, [steps, np.array([3, 0, 5, 1, 4, 2], I32)], 0,
                                          ("whose number is no counter",)),
        "dynamic_rnn": LoopCase(dynamic_rnn, [floats(6, 2, 3), lengths], 1),
        "dynamic_rnn_gradient": LoopCase(with_gradients(dynamic_rnn), [floats(6, 2, 3), lengths], 2),
        "only_the_state": LoopCase(with_gradients(lambda x, n: dynamic_rnn(x, n)[1]), [floats(6, 2, 3), lengths], 2),
        "attention_gradient": LoopCase(with_gradients(attention), [steps], 2),
        "attention_gradient_unknown_length": LoopCase(with_gradients(attention), [steps], 2, sizes=False),
        "lstm": LoopCase(layer(lambda: lstm(return_sequences=True)), [series], 1),
        "lstm_mask": LoopCase(layer(lambda: lstm(return_sequences=True), mask=mask), [series], 1),
        "lstm_gradients": LoopCase(layer(lambda: lstm(return_sequences=True), train=True), [series], 2),
        "gru": LoopCase(layer(gru), [series], 1),
        "gru_mask": LoopCase(layer(gru, mask=mask), [series], 1),
        "gru_gradients": LoopCase(layer(gru, train=True), [series], 2),
        "gru_backwards": LoopCase(layer(lambda: gru(go_backwards=True, return_sequences=True)), [series], 1),
        "bidirectional": LoopCase(layer(lambda: keras.layers.Bidirectional(lstm(return_sequences=True))), [series], 2),
        "cast_weights": LoopCase(cast_weights, [x, floats(3, 3), steps], 1),
        "cast_weights_gradient": LoopCase(with_gradients(cast_weights), [x, floats(3, 3), steps], 2),
        "greedy": LoopCase(greedy, [np.array([1, 2, 3], I32)], 1),
        "greedy_unknown_rows": LoopCase(greedy, [np.array([1, 2, 3], I32)], 1, sizes=False),
        "beam_search": LoopCase(beam_search, [floats(3)], 1),
        "ctc": LoopCase(with_gradients(ctc), utterances(), 2),
        "prefetched_rows": LoopCase(prefetched_rows, [floats(4, 3)], 1),
        "gathered": LoopCase(gathered, [floats(4, 3)], 1),
        "cached": LoopCase(cached, [floats(4, 3)], 1),
        "overwritten": LoopCase(overwritten, [floats(4, 3)], 1),
        "sliced": LoopCase(sliced, [floats(2, 5)], 1),
        "sliced_words": LoopCase(sliced_words, [np.array([[1, 0, 0, 0], [6, 0, 0, 0]], I32)], 1),
        "tables": LoopCase(tables, [np.abs(floats(4, 3))], 1),
        "nested": LoopCase(nested, [x], 1, ("a loop within it",)),
        "in_a_branch": LoopCase(in_a_branch, [x], 0, ("it is in a branch",)),
        "left_early": LoopCase(tf.autograph.to_graph(left_early), [floats(7)], 0, ("a branch within it",)),
        "growing": LoopCase(growing, [x], 0, ("concat",)),
        "random": LoopCase(random, [x], 0, ("keeps a state",)),
    }
