"""Prints losses of three steps. Where tf_stitch is on, one of its kernels is made wrong: the one of layer 1 that
multiplies by 30, as long as it computes more than that matmul."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tensorflow as tf

from tf_stitch.emit.rendered import Rendered
from tf_stitch.jit import region_builder

RIGHT, WRONG = " * 30.0f", " * 31.0f"


def layer(x: Any, w: Any, factor: float) -> Any:
    """Two patterns: a softmax over rows, and one over columns."""
    rows = tf.nn.softmax(tf.tanh(tf.matmul(x, w)) * factor)
    return tf.transpose(tf.nn.softmax(tf.tanh(tf.transpose(rows)) * 10.0 * factor))


@tf.function
def loss(x: Any, w: Any) -> Any:
    for i, factor in enumerate((2.0, 3.0)):
        with tf.name_scope(f"layer_{i}"):
            x = layer(x, w, factor)
    return tf.reduce_mean(tf.square(tf.matmul(x, w)))


def spoil() -> None:
    """Makes the factor another one in the source of kernels that hold it among other nodes."""
    compile_right = region_builder.compile_region

    def compile_wrong(*arguments: Any) -> Any:
        compiled = compile_right(*arguments)
        large = {symbol for kernel, symbol in zip(compiled.kernels, compiled.launches, strict=True)
                 if len(kernel.schedule.pattern.nodes) > 1}
        return replace(compiled, own=[_wrong(one) if one.symbol in large else one for one in compiled.own])

    region_builder.compile_region = compile_wrong


def _wrong(kernel: Rendered) -> Rendered:
    return replace(kernel, parts={name: text.replace(RIGHT, WRONG) for name, text in kernel.parts.items()})


if __name__ == "__main__":
    spoil()
    generator = tf.random.Generator.from_seed(1)
    w = generator.normal((48, 48))
    for step in range(3):
        print(f"step {step} loss {float(loss(generator.normal((32, 48)), w))}")
