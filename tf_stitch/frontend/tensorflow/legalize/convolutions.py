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
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.types import Dim, Shape

_DTYPES = (DType.F16, DType.BF16, DType.F32, DType.F64)
_FILTERS_FIRST = (3, 0, 1, 2)  # [r, s, c, k] -> [k, r, s, c]
_FILTERS_LAST = (1, 2, 3, 0)


@dataclass(frozen=True)
class _Window:
    """How windows lie in images of a size, height before width.

    Attributes:
        low, high: padding before and behind.
    """

    size: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    low: tuple[int, int]
    high: tuple[int, int]

    @property
    def padding(self) -> tuple[int, int]:
        """On both sides."""
        return min(self.low[0], self.high[0]), min(self.low[1], self.high[1])

    @property
    def more(self) -> tuple[list[int], list[int]]:
        """What images [n, h, w, c] are padded by beside that, before and behind."""
        before, behind = ([0, *(a - both for a, both in zip(side, self.padding, strict=True)), 0]
                          for side in (self.low, self.high))
        return before, behind

    @property
    def padded_size(self) -> tuple[int, ...]:
        """Of images that are padded so."""
        before, behind = self.more
        return tuple(d + a + b for d, a, b in zip(self.size, before[1:3], behind[1:3], strict=True))

    def attrs(self, groups: int, size: tuple[int, ...] = ()) -> ConvolutionAttrs:
        return ConvolutionAttrs(self.strides, self.dilations, self.padding, groups, size)


def _known(dims: Shape) -> tuple[int, ...]:
    if not all(isinstance(d, int) for d in dims):
        raise UnsupportedError("a convolution of sizes that are decided at run time")
    return tuple(d for d in dims if isinstance(d, int))


def _window(ctx: NodeContext, size: Shape, filter_size: Shape) -> _Window:
    first = 1 if channel_axis(ctx, 4) == 3 else 2
    h, w = _known(size)
    strides, dilations = (_axes(ctx, name, first) for name in ("strides", "dilations"))
    extent = [d * (n - 1) + 1 for d, n in zip(dilations, _known(filter_size), strict=True)]
    padding = ctx.attrs.string("padding")
    low, high = (0, 0), (0, 0)
    if padding == "SAME":
        total = [max((-(-d // s) - 1) * s + e - d, 0) for d, s, e in zip((h, w), strides, extent, strict=True)]
        low = (total[0] // 2, total[1] // 2)
        high = (total[0] - low[0], total[1] - low[1])
    elif padding == "EXPLICIT":
        explicit = ctx.attrs.integers("explicit_paddings")[2 * first:2 * first + 4]
        low, high = (explicit[0], explicit[2]), (explicit[1], explicit[3])
    elif padding != "VALID":
        raise UnsupportedError(f"padding {padding}")
    return _Window((h, w), strides, dilations, low, high)


def _axes(ctx: NodeContext, name: str, first: int) -> tuple[int, int]:
    """An attribute of all axes, of height and width alone."""
    values = ctx.attrs.integers(name) or (1, 1, 1, 1)
    if len(values) != 4 or any(v != 1 for axis, v in enumerate(values) if axis not in (first, first + 1)):
        raise UnsupportedError(f"{name} {list(values)}")
    return values[first], values[first + 1]


def _images(ctx: NodeContext, x: Node) -> Node:
    """[n, h, w, c]."""
    if x.type.dtype not in _DTYPES or x.type.rank != 4:
        raise UnsupportedError(f"a convolution of {x.type}")
    return x if channel_axis(ctx, 4) == 3 else ctx.b.transpose(x, (0, 2, 3, 1))


def _as_asked(ctx: NodeContext, x: Node) -> Node:
    """Images [n, h, w, c] as the node has them."""
    return x if channel_axis(ctx, 4) == 3 else ctx.b.transpose(x, (0, 3, 1, 2))


def _padded(ctx: NodeContext, x: Node, window: _Window) -> Node:
    before, behind = window.more
    return ctx.b.pad(x, ctx.b.scalar_like(0, x), before, behind) if any((*before, *behind)) else x


def _groups(channels: Dim, of_a_filter: Dim) -> int:
    c, each = _known((channels, of_a_filter))
    if not each or c % each or c == 0:
        raise UnsupportedError(f"filters of {each} channels for images of {c}")
    return c // each


def _convolution(ctx: NodeContext) -> Node:
    x, filters = _images(ctx, ctx.value(0)), ctx.value(1)
    if filters.type.rank != 4:
        raise UnsupportedError(f"filters {filters.type}")
    window = _window(ctx, x.type.shape[1:3], filters.type.shape[:2])
    attrs = window.attrs(_groups(x.type.shape[3], filters.type.shape[2]))
    filters = ctx.b.transpose(filters, _FILTERS_FIRST)
    return _as_asked(ctx, ctx.b.convolution(K.CONVOLUTION, _padded(ctx, x, window), filters, attrs))


@legalize("Conv2D", library=True, convolution=True)
def convolution(ctx: NodeContext) -> Node:
    return _convolution(ctx)


@legalize("Conv2DBackpropInput", library=True, convolution=True)
def input_grad(ctx: NodeContext) -> Node:
    """Of the padded images, of which a part is wanted."""
    filters, grad = ctx.value(1), _images(ctx, ctx.value(2))
    sizes = ctx.dims(0, "the size of the images")
    if len(sizes) != 4 or filters.type.rank != 4:
        raise UnsupportedError(f"the gradient of images of {len(sizes)} axes")
    _, h, w, c = sizes if channel_axis(ctx, 4) == 3 else (sizes[0], *sizes[2:], sizes[1])
    window = _window(ctx, (h, w), filters.type.shape[:2])
    attrs = window.attrs(_groups(c, filters.type.shape[2]), window.padded_size)
    filters = ctx.b.transpose(filters, _FILTERS_FIRST)
    whole = ctx.b.convolution(K.CONVOLUTION_INPUT_GRAD, grad, filters, attrs)
    before, behind = window.more
    if any((*before, *behind)):
        whole = ctx.b.slice(whole, before, (1, 1, 1, 1), (whole.type.shape[0], *window.size, whole.type.shape[3]))
    return _as_asked(ctx, whole)


@legalize("Conv2DBackpropFilter", library=True, convolution=True)
def filter_grad(ctx: NodeContext) -> Node:
    x, grad = _images(ctx, ctx.value(0)), _images(ctx, ctx.value(2))
    sizes = ctx.ints(1, "the size of the filters")
    if len(sizes) != 4:
        raise UnsupportedError(f"the gradient of filters of {len(sizes)} axes")
    window = _window(ctx, x.type.shape[1:3], sizes[:2])
    attrs = window.attrs(_groups(x.type.shape[3], sizes[2]), sizes[:2])
    filters = ctx.b.convolution(K.CONVOLUTION_FILTER_GRAD, _padded(ctx, x, window), grad, attrs)
    return ctx.b.transpose(filters, _FILTERS_LAST)


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
