"""Depthwise convolutions as sums over windows: an element of a result is made of a few elements of one channel, which
is little work for the bytes that it moves. So they are reductions, scheduled, costed and fused as any other op that is
bound by memory; threads that are next to each other read neighbouring channels. The kernels for groups of one
channel that cuDNN's heuristic names take several times as long (docs/decisions/convolutions.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.convolutions import ConvolutionSizes, sizes_of
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import ConvolutionAttrs, WindowsAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.pass_manager import PassResult
from tf_stitch.transforms.rewriter import rewrite

MOST_TERMS = 121
"""Of an element: filters of 11 x 11."""


@dataclass(frozen=True)
class DepthwiseToSums:
    """Those of one filter a channel, and their gradients; of images only where windows are at every element."""

    name: str = "depthwise_to_sums"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return rewrite(graph, (_sum,))


def _sum(node: Node) -> Node | None:
    attrs = node.attrs
    if not isinstance(attrs, ConvolutionAttrs) or not all(x.type.is_static for x in (node, *node.operands)):
        return None
    z = sizes_of(node)
    if not attrs.groups == z.c == z.k or z.r * z.s > MOST_TERMS or not node.type.numel:
        return None
    if node.kind is OpKind.CONVOLUTION:
        return _forward(node, z, attrs)
    if node.kind is OpKind.CONVOLUTION_FILTER_GRAD:
        return _filter_gradient(node, z, attrs)
    return _image_gradient(node, z, attrs)


def _forward(node: Node, z: ConvolutionSizes, attrs: ConvolutionAttrs) -> Node:
    b, (x, filters) = Builder(node.loc), node.operands
    seen = _seen(b, x, attrs.padding, attrs.padding, _windows(z, attrs))
    return _summed(b, seen, _weights(b, filters, z), node)


def _image_gradient(node: Node, z: ConvolutionSizes, attrs: ConvolutionAttrs) -> Node | None:
    """An element gets of each window that it is in what that got, by the weight that it had there."""
    b, (gradient, filters) = Builder(node.loc), node.operands
    reach = [d * (size - 1) for d, size in zip(attrs.dilations, (z.r, z.s), strict=True)]
    before = [r - p for r, p in zip(reach, attrs.padding, strict=True)]
    behind = [size + p - count for size, p, count in zip((z.h, z.w), attrs.padding, (z.p, z.q), strict=True)]
    if attrs.strides != (1, 1) or min(*before, *behind) < 0:
        return None
    seen = _seen(b, gradient, before, behind, WindowsAttrs((z.h, z.w), (z.r, z.s), (1, 1), attrs.dilations))
    turned = b.slice(filters, (0, z.r - 1, z.s - 1, 0), (1, -1, -1, 1), filters.type.dims)
    return _summed(b, seen, _weights(b, turned, z), node)


def _filter_gradient(node: Node, z: ConvolutionSizes, attrs: ConvolutionAttrs) -> Node:
    b, (x, gradient) = Builder(node.loc), node.operands
    seen = _seen(b, x, attrs.padding, attrs.padding, _windows(z, attrs))
    wide = b.reshape(_wide(b, gradient), (z.n, z.p, z.q, 1, 1, z.c))
    sums = b.sum(b.mul(seen, wide), (0, 1, 2))
    return b.cast(b.reshape(b.transpose(sums, (2, 0, 1)), node.type.dims), node.type.dtype)


def _summed(b: Builder, seen: Node, weights: Node, node: Node) -> Node:
    """The weighted sum over each window. All channels of a row of windows lie side by side, so that threads find as
    many neighbours as they can."""
    n, p, q, r, s, c = seen.type.dims
    across = b.transpose(b.mul(seen, weights), (0, 1, 3, 4, 2, 5))
    return b.cast(b.reshape(b.sum(b.reshape(across, (n * p, r * s, q * c)), [1]), (n, p, q, c)), node.type.dtype)


def _windows(z: ConvolutionSizes, attrs: ConvolutionAttrs) -> WindowsAttrs:
    return WindowsAttrs((z.p, z.q), (z.r, z.s), attrs.strides, attrs.dilations)


def _seen(b: Builder, x: Node, before: Sequence[int], behind: Sequence[int], windows: WindowsAttrs) -> Node:
    if any((*before, *behind)):
        x = b.pad(x, b.constant(0, x.type.dtype), [0, *before, 0], [0, *behind, 0])
    return _wide(b, b.windows(x, windows))


def _weights(b: Builder, filters: Node, z: ConvolutionSizes) -> Node:
    """Of [c, r, s, 1]: [r, s, c]."""
    return _wide(b, b.transpose(b.reshape(filters, (z.c, z.r, z.s)), (1, 2, 0)))


def _wide(b: Builder, x: Node) -> Node:
    """In the type that halves are computed in."""
    return b.cast(x, x.type.dtype.compute)
