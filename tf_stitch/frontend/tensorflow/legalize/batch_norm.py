"""Fused batch normalisation and its gradient (fused_batch_norm_op.cc, the CPU functors).

Statistics are float32 whatever the type of x. What the op saves for its gradient is the batch's variance on a
CPU and 1 / sqrt(variance + epsilon) on a GPU: the two halves may run in different places, so both are kept.
"""

from __future__ import annotations

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.legalize.activations import fused_activation
from tf_stitch.frontend.tensorflow.legalize.bias import channel_axis, per_channel
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K


def _rsqrt(b: Builder, variance: Node, epsilon: float) -> Node:
    return b.op(K.RSQRT, b.add(variance, b.scalar_like(epsilon, variance)))


def _forward(ctx: NodeContext) -> list[Node | None]:
    b, x = ctx.b, ctx.value(0)
    scale, offset, old_mean, old_variance = ctx.values(1, 5)
    rank, axis = x.type.rank, channel_axis(ctx, x.type.rank)
    if 0 in x.type.shape:
        raise UnsupportedError("batch normalisation of nothing")
    others = [a for a in range(rank) if a != axis]
    epsilon = ctx.attrs.real("epsilon")
    wide = b.cast(x, DType.F32)
    if ctx.attrs.flag("is_training"):
        mean, variance, centered = _moments(b, wide, axis)
        running = _running(ctx, mean, variance, old_mean, old_variance,
                           b.extent(tuple(x.type.shape[a] for a in others), DType.F32))
        saved = [mean, _rsqrt(b, variance, epsilon) if ctx.on_gpu else variance]
    else:
        mean, variance = old_mean, old_variance
        centered = b.sub(wide, per_channel(b, mean, rank, axis))
        running = [mean, variance]
        saved = [mean, variance]
    y = normalized(b, centered, variance, scale, offset, epsilon, axis)
    return [b.cast(y, x.type.dtype), *running, *saved]


def normalized(b: Builder, centered: Node, variance: Node, scale: Node, offset: Node, epsilon: float, axis: int
               ) -> Node:
    """What is left of a batch norm when the mean is subtracted; all but `centered` have an element for each channel."""
    rank, factor = centered.type.rank, b.mul(_rsqrt(b, variance, epsilon), scale)
    return b.add(b.mul(centered, per_channel(b, factor, rank, axis)), per_channel(b, offset, rank, axis))


def _moments(b: Builder, wide: Node, axis: int) -> tuple[Node, Node, Node]:
    """Mean and biased variance per channel, and x - mean."""
    rank = wide.type.rank
    others = [a for a in range(rank) if a != axis]
    mean = b.mean(wide, others)
    centered = b.sub(wide, per_channel(b, mean, rank, axis))
    return mean, b.mean(b.square(centered), others), centered


def _running(ctx: NodeContext, mean: Node, variance: Node, old_mean: Node, old_variance: Node,
             count: Node) -> list[Node]:
    """The statistics given back: unbiased (Bessel), and moved towards by exponential_avg_factor."""
    b = ctx.b
    one = b.constant(1, DType.F32)
    unbiased = b.mul(variance, b.div(count, b.maximum(b.sub(count, one), one)))
    rate = ctx.attrs.real("exponential_avg_factor") if ctx.attrs.has("exponential_avg_factor") else 1.0
    if rate == 1.0:
        return [mean, unbiased]
    new, old = b.constant(rate, DType.F32), b.sub(one, b.constant(rate, DType.F32))
    return [b.add(b.mul(old, before), b.mul(new, now))
            for before, now in ((old_mean, mean), (old_variance, unbiased))]


def _for_cudnn(ctx: NodeContext) -> bool:
    """Whether the third reserve space holds what only cuDNN knows. Other kernels do not look into it."""
    return ctx.on_gpu and ctx.attrs.flag("is_training")


@legalize("FusedBatchNorm", "FusedBatchNormV2")
def batch_norm(ctx: NodeContext) -> list[Node | None]:
    return _forward(ctx)


@legalize("FusedBatchNormV3")
def batch_norm_v3(ctx: NodeContext) -> list[Node | None]:
    """TensorFlow's Eigen kernel makes the third reserve space a zero, too, where nobody looks into it."""
    return [*_forward(ctx), None if _for_cudnn(ctx) else ctx.b.constant(0, DType.F32)]


@legalize("_FusedBatchNormEx")
def batch_norm_and_activation(ctx: NodeContext) -> list[Node | None]:
    """What Grappler's remapper makes of a batch norm, a relu behind it, and perhaps a sum in between."""
    if _for_cudnn(ctx):
        raise UnsupportedError("_FusedBatchNormEx leaves to its gradient what cuDNN alone knows")
    [y, *others], activation = _forward(ctx), ctx.attrs.string("activation_mode")
    assert y is not None
    if ctx.attrs.integer("num_side_inputs"):
        y = ctx.b.add(y, ctx.value(5))
    if activation != "Identity":
        y = fused_activation(ctx, y, activation)
    return [y, *others, ctx.b.constant(0, DType.F32)]


@legalize("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def batch_norm_grad(ctx: NodeContext) -> list[Node | None]:
    """Training: dx = scale r (dy - mean(dy) - (x - mean) r^2 mean(dy (x - mean))), r = 1 / sqrt(var + epsilon).
    Inference: the statistics are constants. The last two outputs are placeholders that nobody reads."""
    for reserve in ctx.operands[5:]:
        (ctx.private if _for_cudnn(ctx) else ctx.ignored).append(reserve.tensor)
    b, dy, x = ctx.b, ctx.value(0), ctx.value(1)
    scale, mean, spread = ctx.values(2, 5)
    rank, axis = x.type.rank, channel_axis(ctx, x.type.rank)
    others = [a for a in range(rank) if a != axis]
    training = ctx.attrs.flag("is_training")
    r = spread if training and ctx.on_gpu else _rsqrt(b, spread, ctx.attrs.real("epsilon"))
    wide = b.cast(dy, DType.F32)
    centered = b.sub(b.cast(x, DType.F32), per_channel(b, mean, rank, axis))
    offset_grad = b.sum(wide, others)
    projection = b.sum(b.mul(wide, centered), others)
    dx = wide
    if training:
        count = b.extent(tuple(x.type.shape[a] for a in others), DType.F32)
        slope = b.mul(b.square(r), b.div(projection, count))
        dx = b.sub(dx, per_channel(b, b.div(offset_grad, count), rank, axis))
        dx = b.sub(dx, b.mul(centered, per_channel(b, slope, rank, axis)))
    dx = b.mul(dx, per_channel(b, b.mul(scale, r), rank, axis))
    return [b.cast(dx, x.type.dtype), b.mul(projection, r), offset_grad, None, None]
