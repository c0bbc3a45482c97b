"""Recurrent layers as TensorFlow 1's dynamic_rnn ran them: a while loop over time, no cuDNN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from models.block import Block


def dynamic_rnn(step: Callable[[Any, Any], tuple[Any, Any]], inputs: Any, state: Any, lengths: Any = None) -> Any:
    """Runs a cell over time.

    Args:
        step: (what `inputs` hold at one time [batch, ...], state) -> (output [batch, width], state).
        inputs: tensors [batch, time, ...] in any nest.
        lengths: [batch]; past its length a row's output is 0 and its state stays. None: all are full.

    Returns:
        (outputs [batch, time, width], the last state)
    """
    flat = [_swap(x) for x in tf.nest.flatten(inputs)]
    time = tf.shape(flat[0])[0]
    arrays = [tf.TensorArray(x.dtype, time, element_shape=x.shape[1:]).unstack(x) for x in flat]
    first, _ = step(tf.nest.pack_sequence_as(inputs, [x[0] for x in flat]), state)

    def body(t: Any, state: Any, outputs: Any) -> Any:
        now = tf.nest.pack_sequence_as(inputs, [array.read(t) for array in arrays])
        output, new = step(now, state)
        if lengths is not None:
            alive = (t < lengths)[:, None]
            output = tf.where(alive, output, tf.zeros_like(output))
            new = tf.nest.map_structure(lambda a, b: tf.where(alive, a, b), new, state)
        return t + 1, new, outputs.write(t, output)

    outputs = tf.TensorArray(first.dtype, time, element_shape=first.shape)
    _, state, outputs = tf.while_loop(lambda t, *_: t < time, body, (0, state, outputs), maximum_iterations=time)
    return _swap(outputs.stack()), state


def _swap(x: Any) -> Any:
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])


class Recurrent(Block):
    """A Keras cell over time: [batch, time, depth] -> outputs [batch, time, units] and last state."""

    def __init__(self, cell: keras.layers.Layer, backwards: bool = False) -> None:
        super().__init__()
        self.cell, self._backwards = cell, backwards

    def call(self, x: Any, lengths: Any = None) -> Any:
        if not self.cell.built:
            self.cell.build((None, x.shape[-1]))
        if self._backwards:
            x = reverse(x, lengths)
        state = self.cell.get_initial_state(batch_size=tf.shape(x)[0])
        outputs, state = dynamic_rnn(self.cell, x, state, lengths)
        return (reverse(outputs, lengths) if self._backwards else outputs), state


class Bidirectional(Block):
    """Two cells, one from each end: outputs [batch, time, 2 units] and both last states."""

    def __init__(self, cell: Callable[[], keras.layers.Layer]) -> None:
        super().__init__()
        self.forwards, self.backwards = Recurrent(cell()), Recurrent(cell(), backwards=True)

    def call(self, x: Any, lengths: Any = None) -> Any:
        (left, left_state), (right, right_state) = self.forwards(x, lengths), self.backwards(x, lengths)
        return tf.concat([left, right], -1), (left_state, right_state)


def reverse(x: Any, lengths: Any = None) -> Any:
    """x [batch, time, depth] backwards in time; with lengths, only what is within them."""
    return tf.reverse(x, [1]) if lengths is None else tf.reverse_sequence(x, lengths, seq_axis=1)
