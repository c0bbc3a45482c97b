"""Shapes of random tensors, by the vector that asks for them. TensorFlow's inference calls a size that such a vector
copies from another tensor by a new name; then what is drawn and what it is drawn for seem to differ in size."""

from __future__ import annotations

from tf_stitch.frontend.tensorflow.loop_shapes import finer
from tf_stitch.frontend.tensorflow.node_context import NodeContext, TensorSpec

SHAPE_INPUT = dict.fromkeys((
    "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "StatelessRandomUniform",
    "StatelessRandomUniformV2", "StatelessRandomUniformInt", "StatelessRandomUniformIntV2",
    "StatelessRandomUniformFullInt", "StatelessRandomUniformFullIntV2", "StatelessRandomNormal",
    "StatelessRandomNormalV2", "StatelessTruncatedNormal", "StatelessTruncatedNormalV2"), 0) | dict.fromkeys((
    "StatefulUniform", "StatefulUniformFullInt", "StatefulUniformInt", "StatefulStandardNormalV2",
    "StatefulTruncatedNormal"), 2)  # fmt: skip
"""Op -> the input that is the shape of output 0."""


def drawn_specs(ctx: NodeContext) -> tuple[TensorSpec, ...]:
    """The node's output types; a random op's with the sizes that its shape input is known to hold."""
    index = SHAPE_INPUT.get(ctx.op)
    shape = None if index is None else ctx.static(index)
    if shape is None or any(e is None or (isinstance(e, int) and e < 0) for e in shape.flat):
        return ctx.output_specs
    return finer(ctx.output_specs[0], tuple(shape.flat)), *ctx.output_specs[1:]
