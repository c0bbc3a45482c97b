"""Programs with loops, of which `tools.loop_table` says how they run."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from models.synthetic import words

Program = Callable[[], Any]
x = tf.constant(np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32))
series = tf.constant(np.random.default_rng(0).standard_normal((2, 6, 4)).astype(np.float32))


def cell_step(a: Any, row: Any) -> Any:
    return tf.tanh(a) + row


def gradient(function: Callable[[Any], Any], given: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(given)
        loss = tf.reduce_sum(function(given))
    return tape.gradient(loss, given)


def scan(given: Any) -> Any:
    return tf.scan(cell_step, given, initializer=tf.zeros([4]))


@keras.saving.register_keras_serializable("loop_table")
class Cell(keras.layers.Layer):
    """A custom cell: its state decays and takes the input."""

    state_size = output_size = 4

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(4, 4), name="kernel")

    def call(self, given: Any, states: Any) -> Any:
        state = keras.ops.tanh(0.5 * states[0] + keras.ops.matmul(given, self.kernel))
        return state, [state]


def layer(make: Callable[[], Any], train: bool = False) -> Program:
    """A recurrent layer of Keras, without cuDNN."""
    def run() -> Any:
        made = make()
        made.build(series.shape)
        return traced(lambda: gradient(made, series) if train else made(series))

    return run


def traced(function: Callable[[], Any]) -> Any:
    return tf.function(function, autograph=False)()


def until() -> Any:
    return tf.while_loop(lambda y: tf.reduce_sum(y) < 50.0, lambda y: (y + 1.0,), (x,))


def ctc() -> Any:
    logits = tf.random.stateless_normal((7, 2, 5), [1, 2])
    return tf.nn.ctc_loss(tf.constant([[1, 2], [3, 1]]), logits, tf.constant([2, 2]), tf.constant([7, 6]),
                          blank_index=0)


def session() -> Any:
    """TensorFlow 1: a graph and a session."""
    tf1 = tf.compat.v1
    with tf.Graph().as_default(), tf1.Session() as run:
        given = tf1.placeholder(tf.float32, [6, 4])
        out = tf1.while_loop(lambda i, y: i < 6, lambda i, y: (i + 1, tf.tanh(y) + given[i]), (0, tf.zeros([4])))
        return run.run(out, {given: np.ones((6, 4), np.float32)})


def nested() -> Any:
    """Loops whose ends data decide, the inner of them anew each time."""
    def body(i: Any, y: Any) -> tuple[Any, Any]:
        [y] = tf.while_loop(lambda y: tf.reduce_sum(y) < 50.0, lambda y: (y + 1.0,), (y,))
        return i + 1, tf.tanh(y)

    return tf.while_loop(lambda i, y: tf.reduce_max(y) < 10.0 + tf.cast(i, tf.float32) * 5.0, body, (0, x),
                         maximum_iterations=3)


def branch() -> Any:
    def body(i: Any, y: Any) -> tuple[Any, Any]:
        return i + 1, tf.cond(tf.reduce_sum(y) > 0.0, lambda: tf.matmul(y, y, transpose_b=True) @ y, lambda: y + 1.0)

    return tf.while_loop(lambda i, y: i < 5, body, (0, x))


def vectorized() -> Any:
    def until_large(row: Any) -> Any:
        return tf.while_loop(lambda y: tf.reduce_sum(y) < 20.0, lambda y: (y * 1.5 + 1.0,), (row,))[0]

    return tf.vectorized_map(until_large, x)


def cudnn() -> Any:
    """Keras' LSTM as it is on a GPU; a CPU cannot run it."""
    zeros = tf.zeros([2, 1, 4])
    try:
        return tf.raw_ops.CudnnRNNV3(input=tf.tanh(series), input_h=zeros, input_c=zeros, params=tf.zeros([160]),
                                     sequence_lengths=tf.fill([2], 6), time_major=False)[0] * 2.0
    except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError):
        return None


def of_lengths() -> Any:
    """TensorFlow 1's dynamic_rnn, of rows of different lengths."""
    from models.recurrent import dynamic_rnn

    def step(row: Any, state: Any) -> tuple[Any, Any]:
        new = tf.tanh(row + state)
        return new, new

    return dynamic_rnn(step, series, tf.zeros([2, 4]), tf.constant([6, 3]))


def masked() -> Any:
    """Rows of different lengths, by a mask."""
    return keras.Sequential([layers.Masking(), layers.LSTM(4, use_cudnn=False)])


def likeliest(model: Any, given: Any) -> Any:
    return model.go_on(given, model.likeliest)


def drawn(model: Any, given: Any) -> Any:
    return model.go_on(given, model.draw)


def of_lstms(model: Any, given: Any) -> Any:
    logits, states = model.read(given["text"])
    return model.go_on(logits[:, -1], states, lambda logits, at: tf.argmax(logits, -1))


def beams(model: Any, given: Any) -> Any:
    return model.infer(given)


def decoding(module: str, answer: Callable[[Any, Any], Any], config: str = "small") -> Program:
    """A decoder of models/."""
    def run() -> Any:
        model = import_module(module).MODEL
        sizes = model.configs[config]
        given = {name: tf.constant(v) for name, v in model.data(sizes, np.random.default_rng(1)).infer[0].items()}
        network = model.network(sizes)
        network.train_loss({name: value[:1] for name, value in given.items()})
        return traced(lambda: answer(network, given))

    return run


def language() -> Any:
    """A step of models/lstm_language.py, without its optimizer."""
    from models.lstm_language import CONFIGS, LSTMLanguageModel

    config = CONFIGS["small"]
    text = {"text": tf.constant(words(np.random.default_rng(1), config.vocabulary, (config.batch, config.length)))}
    model = LSTMLanguageModel(config)
    model.train_loss(text)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = model.train_loss(text)
        return tape.gradient(loss, model.trainable_variables)

    return traced(step)


def generated(sampler: str) -> Program:
    """keras_hub's GPT-2."""
    def run() -> Any:
        import keras_hub

        backbone = keras_hub.models.GPT2Backbone(40, 2, 2, 16, 32, max_sequence_length=12)
        model = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
        model.compile(sampler=sampler, jit_compile=False)
        text = {"token_ids": tf.ones([2, 12], tf.int32), "padding_mask": tf.constant([[True] + [False] * 11] * 2)}
        return model.make_generate_function()(text, stop_token_ids=None)

    return run


PROGRAMS: dict[str, Program] = {
    "tf.scan": lambda: traced(lambda: scan(x)),
    "tf.scan, gradient": lambda: traced(lambda: gradient(scan, x)),
    "tf.map_fn": lambda: traced(lambda: tf.map_fn(lambda row: tf.nn.softmax(row) * 2.0, x)),
    "tf.foldl": lambda: traced(lambda: tf.foldl(cell_step, x)),
    "tf.while_loop that data end": lambda: traced(until),
    "tf.while_loop in a session": session,
    "tf.nn.ctc_loss": lambda: traced(ctc),
    "RNN of a custom cell": layer(lambda: keras.layers.RNN(Cell())),
    "RNN of a custom cell, gradient": layer(lambda: keras.layers.RNN(Cell()), train=True),
    "loop in a loop": lambda: traced(nested),
    "loop with a branch": lambda: traced(branch),
    "tf.vectorized_map of a loop": lambda: traced(vectorized),
    "dynamic_rnn, rows of different lengths": lambda: traced(of_lengths),
    "LSTM": layer(lambda: keras.layers.LSTM(4, use_cudnn=False)),
    "LSTM, gradient": layer(lambda: keras.layers.LSTM(4, use_cudnn=False), train=True),
    "GRU backwards": layer(lambda: keras.layers.GRU(4, use_cudnn=False, go_backwards=True)),
    "LSTM, masked": layer(masked),
    "LSTM by cuDNN's op": cudnn,
    "two-layer LSTM language model, gradient": language,
    "two-layer LSTM language model, likeliest words": decoding("models.lstm_language", of_lstms),
    "bidirectional LSTM": layer(lambda: keras.layers.Bidirectional(keras.layers.LSTM(4, use_cudnn=False))),
    "decoding, likeliest words": decoding("models.decoding", likeliest),
    "decoding, drawn words": decoding("models.decoding", drawn),
    "Llama's decoding": decoding("models.llama_decoding", likeliest),
    "decoding, beams of 4": decoding("models.beam_decoding", beams),
    "decoding, beams of 4, batch 16": decoding("models.beam_decoding", beams, "small_16"),
    **{f"keras_hub GPT-2, {sampler}": generated(sampler) for sampler in ("greedy", "top_k", "top_p", "beam",
                                                                        "contrastive")},
}
