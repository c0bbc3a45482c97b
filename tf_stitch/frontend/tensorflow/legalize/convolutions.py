"""Convolutions of images and their gradients: library calls of a region on a GPU.

Images have two axes, or three: [n, *image, c]. The IR has channels last, in images and in filters, as tensor cores read
them: images in other formats and TensorFlow's filters [*window, c, k] are transposed. A library pads both sides of an
image alike: what one side has more is padded before.
"""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.legalize.activations import fused_activation
from tf_stitch.frontend.tensorflow.legalize.batch_norm import normalized
from tf_stitch.frontend.tensorflow.legalize.bias import channel_axis, per_channel
from tf_stitch.frontend.tensorflow.node_context import NodeContext
from tf_stitch.frontend.tensorflow.registry import legalize
from tf_stitch.frontend.tensorflow.windows import Window, of_images, windows
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.types import Dim, Shape

_DTYPES = (DType.F16, DType.BF16, DType.F32, DType.F64)
_DEPTHWISE = (2, 3, 0, 1)  # [r, s, c, m] -> [c, m, r, s], and back


@dataclass(frozen=True)
class _Windows:
    """How windows lie in images, axis by axis."""

    axes: list[Window]

    @property
    def padding(self) -> tuple[int, ...]:
        """On both sides."""
        return tuple(min(w.low, w.high) for w in self.axes)

    @property
    def more(self) -> tuple[list[int], list[int]]:
        """What images [n, *image, c] are padded by beside that, before and behind."""
        return ([0, *(w.low - min(w.low, w.high) for w in self.axes), 0],
                [0, *(w.high - min(w.low, w.high) for w in self.axes), 0])

    @property
    def padded_size(self) -> tuple[int, ...]:
        """The size of images with this padding."""
        before, behind = self.more
        return tuple(w.size + a + b for w, a, b in zip(self.axes, before[1:], behind[1:], strict=False))

    def attrs(self, groups: int, size: tuple[int, ...] = ()) -> ConvolutionAttrs:
        return ConvolutionAttrs(tuple(w.stride for w in self.axes), tuple(w.dilation for w in self.axes), self.padding,
                                groups, size)


def _known(dims: Shape) -> tuple[int, ...]:
    if not all(isinstance(d, int) for d in dims):
        raise UnsupportedError("a convolution of sizes that are decided at run time")
    return tuple(d for d in dims if isinstance(d, int))


def _windows(ctx: NodeContext, size: Shape, filter_size: Shape) -> _Windows:
    rank = len(size) + 2
    first = 1 if channel_axis(ctx, rank) == rank - 1 else 2
    strides = of_images(ctx.attrs.integers("strides"), first, "strides")
    return _Windows(windows(ctx, _known(size), _known(filter_size), strides))


def _rank(ctx: NodeContext) -> int:
    """Of images and of filters."""
    return 5 if "3D" in ctx.op else 4


def _images(ctx: NodeContext, x: Node) -> Node:
    """[n, *image, c]."""
    rank = x.type.rank
    if x.type.dtype not in _DTYPES or rank != _rank(ctx):
        raise UnsupportedError(f"a convolution of {x.type}")
    return x if channel_axis(ctx, rank) == rank - 1 else ctx.b.transpose(x, (0, *range(2, rank), 1))


def _as_asked(ctx: NodeContext, x: Node) -> Node:
    """Images [n, *image, c] as the node has them."""
    rank = x.type.rank
    return x if channel_axis(ctx, rank) == rank - 1 else ctx.b.transpose(x, (0, rank - 1, *range(1, rank - 1)))


def _padded(ctx: NodeContext, x: Node, window: _Windows) -> Node:
    before, behind = window.more
    return ctx.b.pad(x, ctx.b.scalar_like(0, x), before, behind) if any((*before, *behind)) else x


def _is_depthwise(ctx: NodeContext) -> bool:
    """Filters [r, s, c, m] are m for each channel then, otherwise [*window, c / groups, k]."""
    return "Depthwise" in ctx.op


def _groups(ctx: NodeContext, channels: Dim, filter_size: Shape) -> int:
    c, each = _known((channels, filter_size[-2]))
    if _is_depthwise(ctx) and c == each > 0:
        return c
    if _is_depthwise(ctx) or not each or c % each or c == 0:
        raise UnsupportedError(f"filters of {each} channels for images of {c}")
    return c // each


def _filters(ctx: NodeContext, filters: Node) -> Node:
    """[k, *window, c / groups]."""
    if not _is_depthwise(ctx):
        rank = filters.type.rank
        return ctx.b.transpose(filters, (rank - 1, *range(rank - 1)))
    r, s, c, m = _known(filters.type.shape)
    return ctx.b.reshape(ctx.b.transpose(filters, _DEPTHWISE), (c * m, r, s, 1))


def _filters_as_asked(ctx: NodeContext, filters: Node, size: tuple[int, ...]) -> Node:
    """Filters [k, *window, c / groups] as the node has them."""
    if not _is_depthwise(ctx):
        return ctx.b.transpose(filters, (*range(1, filters.type.rank), 0))
    r, s, c, m = size
    return ctx.b.transpose(ctx.b.reshape(filters, (c, m, r, s)), _DEPTHWISE)


def _convolution(ctx: NodeContext) -> Node:
    x, filters = _images(ctx, ctx.value(0)), ctx.value(1)
    if filters.type.rank != _rank(ctx):
        raise UnsupportedError(f"filters {filters.type}")
    window = _windows(ctx, x.type.shape[1:-1], filters.type.shape[:-2])
    attrs = window.attrs(_groups(ctx, x.type.shape[-1], filters.type.shape))
    return _as_asked(ctx, ctx.b.convolution(K.CONVOLUTION, _padded(ctx, x, window), _filters(ctx, filters), attrs))


@legalize("Conv2D", "Conv3D", library=True, convolution=True)
def convolution(ctx: NodeContext) -> Node:
    return _convolution(ctx)


@legalize("DepthwiseConv2dNative", library=True, convolution=True, kernels=True)
def depthwise_convolution(ctx: NodeContext) -> Node:
    return _convolution(ctx)


@legalize("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput", library=True,
          convolution=True)
def input_grad(ctx: NodeContext) -> Node:
    """The gradient of the padded images, of which a part is wanted."""
    filters, grad = ctx.value(1), _images(ctx, ctx.value(2))
    sizes = ctx.dims(0, "the size of the images")
    rank = _rank(ctx)
    if not len(sizes) == filters.type.rank == rank:
        raise UnsupportedError(f"the gradient of images of {len(sizes)} axes")
    _, *image, c = sizes if channel_axis(ctx, rank) == rank - 1 else (sizes[0], *sizes[2:], sizes[1])
    window = _windows(ctx, tuple(image), filters.type.shape[:-2])
    attrs = window.attrs(_groups(ctx, c, filters.type.shape), window.padded_size)
    whole = ctx.b.convolution(K.CONVOLUTION_INPUT_GRAD, grad, _filters(ctx, filters), attrs)
    before, behind = window.more
    if any((*before, *behind)):
        size = (whole.type.shape[0], *(axis.size for axis in window.axes), whole.type.shape[-1])
        whole = ctx.b.slice(whole, before, (1,) * rank, size)
    return _as_asked(ctx, whole)


@legalize("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter", library=True,
          convolution=True)
def filter_grad(ctx: NodeContext) -> Node:
    x, grad = _images(ctx, ctx.value(0)), _images(ctx, ctx.value(2))
    size = ctx.ints(1, "the size of the filters")
    if len(size) != _rank(ctx):
        raise UnsupportedError(f"the gradient of filters of {len(size)} axes")
    window = _windows(ctx, x.type.shape[1:-1], size[:-2])
    attrs = window.attrs(_groups(ctx, x.type.shape[-1], size), size[:-2])
    filters = ctx.b.convolution(K.CONVOLUTION_FILTER_GRAD, _padded(ctx, x, window), grad, attrs)
    return _filters_as_asked(ctx, filters, size)


@legalize("_FusedConv2D", library=True, convolution=True)
def fused_convolution(ctx: NodeContext) -> Node:
    """What Grappler's remapper makes of a convolution and what follows it."""
    return _followed(ctx)


@legalize("_FusedDepthwiseConv2dNative", library=True, convolution=True, kernels=True)
def fused_depthwise_convolution(ctx: NodeContext) -> Node:
    return _followed(ctx)


def _followed(ctx: NodeContext) -> Node:
    """A convolution, then a bias and perhaps a sum, or an inferred batch norm, then perhaps an activation."""
    first, *rest = ctx.attrs.strings("fused_ops") or ("nothing",)
    adds = first == "BiasAdd" and rest[:1] == ["Add"]
    count = {"BiasAdd": 1 + adds, "FusedBatchNorm": 4}.get(first)
    if count != ctx.attrs.integer("num_args") or len(rest) > 1 + adds:
        raise UnsupportedError(f"{ctx.op} with {', '.join((first, *rest))}")
    b, axis, out = ctx.b, channel_axis(ctx, 4), _convolution(ctx)
    if first == "BiasAdd":
        out = b.add(out, per_channel(b, ctx.value(2), 4, axis))
    else:
        scale, offset, mean, variance = ctx.values(2, 6)
        centered = b.sub(out, per_channel(b, mean, 4, axis))
        out = normalized(b, centered, variance, scale, offset, ctx.attrs.real("epsilon"), axis)
    if adds:
        out = b.add(out, ctx.value(3))
    return fused_activation(ctx, out, rest[-1]) if len(rest) > adds else out
