"""Convolutions of images and their gradients: library calls of a region on a GPU.

The IR has channels last, in images and in filters, as tensor cores read them: images in other formats and TensorFlow's
filters [r, s, c, k] are transposed. A library pads both sides of an image alike: what one side has more is padded
before.
"""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.errors import UnsupportedError
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
_FILTERS_FIRST = (3, 0, 1, 2)  # [r, s, c, k] -> [k, r, s, c]
_FILTERS_LAST = (1, 2, 3, 0)
_DEPTHWISE = (2, 3, 0, 1)  # [r, s, c, m] -> [c, m, r, s], and back


@dataclass(frozen=True)
class _Windows:
    """How windows lie in images, height before width."""

    axes: list[Window]

    @property
    def padding(self) -> tuple[int, ...]:
        """On both sides."""
        return tuple(min(w.low, w.high) for w in self.axes)

    @property
    def more(self) -> tuple[list[int], list[int]]:
        """What images [n, h, w, c] are padded by beside that, before and behind."""
        return ([0, *(w.low - min(w.low, w.high) for w in self.axes), 0],
                [0, *(w.high - min(w.low, w.high) for w in self.axes), 0])

    @property
    def padded_size(self) -> tuple[int, ...]:
        """Of images that are padded so."""
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
    first = 1 if channel_axis(ctx, 4) == 3 else 2
    strides = of_images(ctx.attrs.integers("strides"), first, "strides")
    return _Windows(windows(ctx, _known(size), _known(filter_size), strides))


def _images(ctx: NodeContext, x: Node) -> Node:
    """[n, h, w, c]."""
    if x.type.dtype not in _DTYPES or x.type.rank != 4:
        raise UnsupportedError(f"a convolution of {x.type}")
    return x if channel_axis(ctx, 4) == 3 else ctx.b.transpose(x, (0, 2, 3, 1))


def _as_asked(ctx: NodeContext, x: Node) -> Node:
    """Images [n, h, w, c] as the node has them."""
    return x if channel_axis(ctx, 4) == 3 else ctx.b.transpose(x, (0, 3, 1, 2))


def _padded(ctx: NodeContext, x: Node, window: _Windows) -> Node:
    before, behind = window.more
    return ctx.b.pad(x, ctx.b.scalar_like(0, x), before, behind) if any((*before, *behind)) else x


def _is_depthwise(ctx: NodeContext) -> bool:
    """Filters [r, s, c, m] are m for each channel then, otherwise [r, s, c / groups, k]."""
    return ctx.op.startswith("Depthwise")


def _groups(ctx: NodeContext, channels: Dim, filter_size: Shape) -> int:
    c, each = _known((channels, filter_size[2]))
    if _is_depthwise(ctx) and c == each > 0:
        return c
    if _is_depthwise(ctx) or not each or c % each or c == 0:
        raise UnsupportedError(f"filters of {each} channels for images of {c}")
    return c // each


def _filters(ctx: NodeContext, filters: Node) -> Node:
    """[k, r, s, c / groups]."""
    if not _is_depthwise(ctx):
        return ctx.b.transpose(filters, _FILTERS_FIRST)
    r, s, c, m = _known(filters.type.shape)
    return ctx.b.reshape(ctx.b.transpose(filters, _DEPTHWISE), (c * m, r, s, 1))


def _filters_as_asked(ctx: NodeContext, filters: Node, size: tuple[int, ...]) -> Node:
    """Filters [k, r, s, c / groups] as the node has them."""
    if not _is_depthwise(ctx):
        return ctx.b.transpose(filters, _FILTERS_LAST)
    r, s, c, m = size
    return ctx.b.transpose(ctx.b.reshape(filters, (c, m, r, s)), _DEPTHWISE)


def _convolution(ctx: NodeContext) -> Node:
    x, filters = _images(ctx, ctx.value(0)), ctx.value(1)
    if filters.type.rank != 4:
        raise UnsupportedError(f"filters {filters.type}")
    window = _windows(ctx, x.type.shape[1:3], filters.type.shape[:2])
    attrs = window.attrs(_groups(ctx, x.type.shape[3], filters.type.shape))
    return _as_asked(ctx, ctx.b.convolution(K.CONVOLUTION, _padded(ctx, x, window), _filters(ctx, filters), attrs))


@legalize("Conv2D", "DepthwiseConv2dNative", library=True, convolution=True)
def convolution(ctx: NodeContext) -> Node:
    return _convolution(ctx)


@legalize("Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput", library=True, convolution=True)
def input_grad(ctx: NodeContext) -> Node:
    """Of the padded images, of which a part is wanted."""
    filters, grad = ctx.value(1), _images(ctx, ctx.value(2))
    sizes = ctx.dims(0, "the size of the images")
    if len(sizes) != 4 or filters.type.rank != 4:
        raise UnsupportedError(f"the gradient of images of {len(sizes)} axes")
    _, h, w, c = sizes if channel_axis(ctx, 4) == 3 else (sizes[0], *sizes[2:], sizes[1])
    window = _windows(ctx, (h, w), filters.type.shape[:2])
    attrs = window.attrs(_groups(ctx, c, filters.type.shape), window.padded_size)
    whole = ctx.b.convolution(K.CONVOLUTION_INPUT_GRAD, grad, _filters(ctx, filters), attrs)
    before, behind = window.more
    if any((*before, *behind)):
        n, _, _, channels = whole.type.shape
        size = (n, *(axis.size for axis in window.axes), channels)
        whole = ctx.b.slice(whole, before, (1, 1, 1, 1), size)
    return _as_asked(ctx, whole)


@legalize("Conv2DBackpropFilter", "DepthwiseConv2dNativeBackpropFilter", library=True, convolution=True)
def filter_grad(ctx: NodeContext) -> Node:
    x, grad = _images(ctx, ctx.value(0)), _images(ctx, ctx.value(2))
    size = ctx.ints(1, "the size of the filters")
    if len(size) != 4:
        raise UnsupportedError(f"the gradient of filters of {len(size)} axes")
    window = _windows(ctx, x.type.shape[1:3], size[:2])
    attrs = window.attrs(_groups(ctx, x.type.shape[3], size), size[:2])
    filters = ctx.b.convolution(K.CONVOLUTION_FILTER_GRAD, _padded(ctx, x, window), grad, attrs)
    return _filters_as_asked(ctx, filters, size)


@legalize("_FusedConv2D", library=True, convolution=True)
def fused_convolution(ctx: NodeContext) -> Node:
    """What Grappler's remapper makes of a convolution and what follows it: a bias, a sum, an activation."""
    fused = ctx.attrs.strings("fused_ops")
    adds = fused[1:2] == ("Add",)
    rest = fused[2 if adds else 1:]
    if fused[:1] != ("BiasAdd",) or len(rest) > 1 or any(name not in ("Relu", "Relu6") for name in rest) \
            or ctx.attrs.integer("num_args") != 1 + adds:
        raise UnsupportedError(f"_FusedConv2D with {', '.join(fused) or 'nothing'}")
    b, out = ctx.b, _convolution(ctx)
    out = b.add(out, per_channel(b, ctx.value(2), 4, channel_axis(ctx, 4)))
    if adds:
        out = b.add(out, ctx.value(3))
    for name in rest:
        out = b.maximum(out, b.scalar_like(0, out))
        out = b.minimum(out, b.scalar_like(6, out)) if name == "Relu6" else out
    return out
