"""How the loops of programs run, on a CPU and on a GPU: as copies, folded, as one op, or as TensorFlow's own nodes.
Needs no GPU: nodes are put where TensorFlow would have them.

    python -m tools.loop_table          writes benchmarks/loops.md, about 5 minutes
    python -m tools.loop_table --only=scan,decoding
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags

from tf_stitch.config import load_config
from tf_stitch.plugin import graph_hook
from tools.benchmark.loop_fates import Watcher, failed
from tools.benchmark.raw_rows import command_line

PAGE = Path(__file__).resolve().parents[1] / "benchmarks" / "loops.md"
HEAD = """# How loops run

What becomes of each loop of a program, by a CPU's graph and by a GPU's. "one op": the loop's body is one region, and
the host runs one op for all iterations; on a GPU the host decides beside the body, or waits for the body's condition.
"""

_ONLY = flags.DEFINE_list("only", None, "programs by name")

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


def decoding(sampler: str) -> Program:
    """models/decoding.py."""
    def run() -> Any:
        from models.decoding import CONFIGS, LanguageModel, data

        config = CONFIGS["small"]
        given = {name: tf.constant(v) for name, v in data(config, np.random.default_rng(1)).infer[0].items()}
        model = LanguageModel(config)
        model.train_loss({name: value[:1] for name, value in given.items()})
        return traced(lambda: model.go_on(given, getattr(model, sampler)))

    return run


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
    "LSTM": layer(lambda: keras.layers.LSTM(4, use_cudnn=False)),
    "LSTM, gradient": layer(lambda: keras.layers.LSTM(4, use_cudnn=False), train=True),
    "GRU backwards": layer(lambda: keras.layers.GRU(4, use_cudnn=False, go_backwards=True)),
    "bidirectional LSTM": layer(lambda: keras.layers.Bidirectional(keras.layers.LSTM(4, use_cudnn=False))),
    "decoding, likeliest words": decoding("likeliest"),
    "decoding, drawn words": decoding("draw"),
    **{f"keras_hub GPT-2, {sampler}": generated(sampler) for sampler in ("greedy", "top_k", "top_p", "beam",
                                                                        "contrastive")},
}


def main(_: Sequence[str]) -> None:
    keras.utils.set_random_seed(1)
    wanted = [name for name in PROGRAMS if _ONLY.value is None or any(part in name for part in _ONLY.value)]
    lines = [*HEAD.splitlines(), "", f"Made by `{command_line(sys.argv)}`, TensorFlow {tf.__version__}, Keras "
             f"{keras.__version__}.", "", "| program | on a CPU | on a GPU |", "| --- | --- | --- |"]
    for name in wanted:
        cells = ["; ".join(seen(PROGRAMS[name], device)) for device in ("CPU", "GPU")]
        lines.append(f"| {name} | {cells[0]} | {cells[1]} |")
        print(lines[-1], flush=True)
    if _ONLY.value is None:
        PAGE.write_text("\n".join(lines) + "\n")


def seen(program: Program, device: str) -> list[str]:
    """What became of a program's loops, each once: TensorFlow offers a graph again, what it has optimized since."""
    watcher = Watcher(device)
    graph_hook.install(watcher.see, failed, load_config().cache_dir)
    program()
    last = {loop.name: loop.fate for loop in watcher.loops}
    return list(dict.fromkeys(fate.replace("|", "/") for fate in last.values())) or ["no loop"]


if __name__ == "__main__":
    tf.get_logger().setLevel("ERROR")
    app.run(main)
