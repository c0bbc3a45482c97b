"""Sizes by the names they have elsewhere, where TensorFlow's inference calls them by new ones: of what is drawn at
random for a tensor, of the axes that a slice or a padding leaves as they are, and of the axis that a reshape is left to
find out. By two names they seem to differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import NodeContext, TensorSpec, is_fresh
from tf_stitch.frontend.tensorflow.size_names import is_computed, more, quotient
from tf_stitch.frontend.tensorflow.strided_slice import sliced_sizes
from tf_stitch.ir.types import Dim, Symbol

Sizes: TypeAlias = Sequence[Dim | None]

_SHAPE_IS_INPUT = dict.fromkeys((
    "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "StatelessRandomUniform",
    "StatelessRandomUniformV2", "StatelessRandomUniformInt", "StatelessRandomUniformIntV2",
    "StatelessRandomUniformFullInt", "StatelessRandomUniformFullIntV2", "StatelessRandomNormal",
    "StatelessRandomNormalV2", "StatelessTruncatedNormal", "StatelessTruncatedNormalV2"), 0) | dict.fromkeys((
    "StatefulUniform", "StatefulUniformFullInt", "StatefulUniformInt", "StatefulStandardNormalV2",
    "StatefulTruncatedNormal"), 2)  # fmt: skip
"""Random op -> the input that is the shape of its output."""


def finer_specs(ctx: NodeContext) -> tuple[TensorSpec, ...]:
    """The node's output types, with sizes in output 0 that its inputs tell."""
    rule = _RULES.get(ctx.op)
    if rule is None or (spec := ctx.output_specs[0]).shape is None or all(isinstance(d, int) for d in spec.shape):
        return ctx.output_specs
    try:
        sizes = rule(ctx)
    except UnsupportedError:  # not known
        return ctx.output_specs
    if len(sizes) != len(spec.shape):
        return ctx.output_specs
    shape = tuple(_finer(theirs, ours) for theirs, ours in zip(spec.shape, sizes, strict=True))
    return TensorSpec(spec.dtype, shape), *ctx.output_specs[1:]


def _finer(theirs: Dim, ours: Dim | None) -> Dim:
    """What has got a name from another tensor keeps it: TensorFlow knows that the two sizes are equal."""
    known = isinstance(ours, Symbol) or (ours is not None and ours >= 0)
    return ours if known and ours is not None and isinstance(theirs, Symbol) and not is_computed(theirs) else theirs


def _drawn(ctx: NodeContext) -> Sizes:
    shape = ctx.static(_SHAPE_IS_INPUT[ctx.op])
    return () if shape is None else list(shape.flat)


def _sliced(ctx: NodeContext) -> Sizes:
    shape = ctx.shape_of(0)
    return () if shape is None else sliced_sizes(ctx, shape)


def _padded(ctx: NodeContext) -> Sizes:
    paddings = ctx.ints(1, "the padding")
    return [dim if before == after == 0 else more(dim, before + after)
            for dim, before, after in zip(ctx.shape_of(0) or (), paddings[0::2], paddings[1::2], strict=False)]


def _reshaped(ctx: NodeContext) -> Sizes:
    """TensorFlow refuses to find out an axis of a tensor without elements, unless the other axes have some."""
    have, asked = ctx.shape_of(0), ctx.static(1)
    if have is None or asked is None:
        return ()
    known = [d for d in asked.flat if d != -1]
    if len(known) + 1 != asked.size or None in known or any(map(is_fresh, (*have, *known))):
        return ()
    missing = quotient(have, known)
    return [missing if d == -1 else d for d in asked.flat]


_RULES: dict[str, Callable[[NodeContext], Sizes]] = {
    **dict.fromkeys(_SHAPE_IS_INPUT, _drawn), "StridedSlice": _sliced, "Pad": _padded, "PadV2": _padded,
    "Reshape": _reshaped}  # fmt: skip
