"""Depthwise convolutions as sums over windows: an element of a result is made of a few elements of one channel, which
is little work for the bytes that it moves. So they are reductions, scheduled, costed and fused as any other op that is
bound by memory; threads that are next to each other read neighbouring channels. Large ones a library does faster
(docs/decisions/convolutions.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from tf_stitch.device.kernel_numbers import KernelNumbers
from tf_stitch.device.profile import DeviceProfile, interpolate
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.convolutions import MOST_TERMS, ConvolutionSizes, is_depthwise, sizes_of
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import ConvolutionAttrs, WindowsAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir.work import SECTOR_BYTES
from tf_stitch.libraries.call import Library
from tf_stitch.libraries.cudnn import convolution_us
from tf_stitch.libraries.registry import library_of
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.context import PassContext
from tf_stitch.passes.rewriter import rewrite


@dataclass(frozen=True)
class DepthwiseToSums:
    """Makes sums over windows of depthwise convolutions of images of two axes, and of their gradients; of gradients of
    images only where windows are at every element. Such gradients that stay library calls become convolutions by turned
    filters, which libraries compute faster.

    Attributes:
        chosen: whether one is better a sum than a library's call.
        in_rows: whether all channels of a row of windows lie side by side in what is summed, so that threads of a GPU
            find as many neighbours as they can; else windows stay what they are, as kernels take them that keep
            neighbours in registers.
    """

    chosen: Callable[[Node], bool]
    in_rows: Callable[[Node], bool]
    name: str = "depthwise_to_sums"

    @classmethod
    def where_faster(cls, context: PassContext) -> DepthwiseToSums:
        """Sums the convolutions that kernels compute faster than a library."""
        return cls(partial(faster_as_sum, libraries=context.libraries, profile=context.device.profile),
                   of_few_channels if context.device.simt else lambda node: False)

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return rewrite(graph, (self._replaced,))

    def _replaced(self, node: Node) -> Node | None:
        attrs = node.attrs
        if not isinstance(attrs, ConvolutionAttrs) or not all(x.type.is_static for x in (node, *node.operands)):
            return None
        if len(attrs.strides) != 2 or not is_depthwise(node) or not node.type.numel:
            return None
        if self.chosen(node):
            return _sum(node, attrs, self.in_rows(node))
        return _convolution_of_gradient(node, attrs) if node.kind is OpKind.CONVOLUTION_INPUT_GRAD else None


def _sum(node: Node, attrs: ConvolutionAttrs, in_rows: bool) -> Node | None:
    z = sizes_of(node)
    if prod(z.window) > MOST_TERMS:
        return None
    if node.kind is OpKind.CONVOLUTION:
        return _forward(node, z, attrs, in_rows)
    if node.kind is OpKind.CONVOLUTION_FILTER_GRAD:
        return _filter_gradient(node, z, attrs)
    return _image_gradient(node, z, attrs, in_rows)


def _forward(node: Node, z: ConvolutionSizes, attrs: ConvolutionAttrs, in_rows: bool) -> Node:
    b, (x, filters) = Builder(node.loc), node.operands
    seen = _seen(b, x, attrs.padding, attrs.padding, _windows(z, attrs))
    return _summed(b, seen, _weights(b, filters, z), node, in_rows)


def _image_gradient(node: Node, z: ConvolutionSizes, attrs: ConvolutionAttrs, in_rows: bool) -> Node | None:
    """An element gets of each window that it is in what that got, by the weight that it had there."""
    b, (gradient, filters) = Builder(node.loc), node.operands
    around = _around_gradient(z, attrs)
    if around is None:
        return None
    seen = _seen(b, gradient, around, around, WindowsAttrs(z.image, z.window, (1, 1), attrs.dilations))
    weights = _weights(b, filters, z)
    turned = b.slice(weights, (*(extent - 1 for extent in z.window), 0), (-1, -1, 1), weights.type.dims)
    return _summed(b, seen, turned, node, in_rows)  # turned last: the library's order is undone then


def _convolution_of_gradient(node: Node, attrs: ConvolutionAttrs) -> Node | None:
    """As _image_gradient, by a library."""
    b, z, (gradient, filters) = Builder(node.loc), sizes_of(node), node.operands
    around = _around_gradient(z, attrs)
    if around is None:
        return None
    forward = replace(attrs, padding=around, size=())
    return b.convolution(OpKind.CONVOLUTION, gradient, _turned(b, filters, z), forward)


def _around_gradient(z: ConvolutionSizes, attrs: ConvolutionAttrs) -> tuple[int, int] | None:
    """Zeros on each side of the gradient of what a convolution gave, so that each element of the image has a window;
    None where windows are not at every element."""
    high, wide = (d * (size - 1) - p for d, size, p in zip(attrs.dilations, z.window, attrs.padding, strict=True))
    return None if attrs.strides != (1, 1) or min(high, wide) < 0 else (high, wide)


def _turned(b: Builder, filters: Node, z: ConvolutionSizes) -> Node:
    return b.slice(filters, (0, *(extent - 1 for extent in z.window), 0), (1, -1, -1, 1), filters.type.dims)


def _filter_gradient(node: Node, z: ConvolutionSizes, attrs: ConvolutionAttrs) -> Node:
    b, (x, gradient) = Builder(node.loc), node.operands
    seen = _seen(b, x, attrs.padding, attrs.padding, _windows(z, attrs))
    wide = b.reshape(_wide(b, gradient), (z.n, *z.windows, 1, 1, z.c))
    sums = b.sum(b.mul(seen, wide), (0, 1, 2))
    return b.cast(b.reshape(b.transpose(sums, (2, 0, 1)), node.type.dims), node.type.dtype)


def _summed(b: Builder, seen: Node, weights: Node, node: Node, in_rows: bool) -> Node:
    """The weighted sum over each window."""
    if not in_rows:
        return b.cast(b.sum(b.mul(seen, weights), (3, 4)), node.type.dtype)
    n, p, q, r, s, c = seen.type.dims
    across = b.transpose(b.mul(seen, weights), (0, 1, 3, 4, 2, 5))
    return b.cast(b.reshape(b.sum(b.reshape(across, (n * p, r * s, q * c)), [1]), (n, p, q, c)), node.type.dtype)


def _windows(z: ConvolutionSizes, attrs: ConvolutionAttrs) -> WindowsAttrs:
    return WindowsAttrs(z.windows, z.window, attrs.strides, attrs.dilations)


def _seen(b: Builder, x: Node, before: Sequence[int], behind: Sequence[int], windows: WindowsAttrs) -> Node:
    if any((*before, *behind)):
        x = b.pad(x, b.constant(0, x.type.dtype), [0, *before, 0], [0, *behind, 0])
    return _wide(b, b.windows(x, windows))


def _weights(b: Builder, filters: Node, z: ConvolutionSizes) -> Node:
    """Of [c, r, s, 1]: [r, s, c]."""
    return _wide(b, b.transpose(b.reshape(filters, (z.c, *z.window)), (1, 2, 0)))


def _wide(b: Builder, x: Node) -> Node:
    """In the type that halves are computed in."""
    return b.cast(x, x.type.dtype.compute)


def faster_as_sum(node: Node, libraries: Sequence[Library], profile: DeviceProfile) -> bool:
    """Whether a static depthwise convolution, or a gradient of one, takes kernels less time than a library. A kernel
    computes what follows, too: where the library computes the convolution, its result is written, and read again."""
    library = library_of(node, libraries)
    called = None if library is None else library.measured_us(node, profile)
    if called is None:
        return True
    summed = profile.kernels.depthwise_us + convolution_us(node, _part(node, profile.kernels), profile)
    between = 2 * node.type.nbytes
    return summed <= called + 1e-3 * between / interpolate(profile.bandwidth, between)


def of_few_channels(node: Node) -> bool:
    """Whether threads that have neighbouring channels of one window would read less than whole sectors of memory."""
    return sizes_of(node).c * node.type.dtype.size < SECTOR_BYTES


def _part(node: Node, kernels: KernelNumbers) -> float:
    """Multiplications of a kernel as a part of what the lanes of the device add."""
    if node.kind is OpKind.CONVOLUTION_FILTER_GRAD:
        return kernels.depthwise_of_filters
    return kernels.depthwise_in_columns if of_few_channels(node) else kernels.depthwise_in_registers
