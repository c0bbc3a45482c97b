"""Static convolutions of images of any number of axes, and their gradients: sizes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind


@dataclass(frozen=True)
class ConvolutionSizes:
    """A convolution of images [n, *image, c] by filters [k, *window, c / groups] to results [n, *windows, k]."""

    n: int
    c: int
    k: int
    image: tuple[int, ...]
    window: tuple[int, ...]
    windows: tuple[int, ...]


def sizes_of(node: Node) -> ConvolutionSizes:
    """The sizes of a static convolution, or of the one that a node is a gradient of."""
    assert isinstance(node.attrs, ConvolutionAttrs)
    first, second, result = node.operands[0].type.dims, node.operands[1].type.dims, node.type.dims
    image, filters, out = {OpKind.CONVOLUTION: (first, second, result),
                           OpKind.CONVOLUTION_INPUT_GRAD: (result, second, first),
                           OpKind.CONVOLUTION_FILTER_GRAD: (first, result, second)}[node.kind]
    return ConvolutionSizes(image[0], image[-1], filters[0], image[1:-1], filters[1:-1], out[1:-1])


def is_depthwise(node: Node) -> bool:
    """Whether a static convolution, or the one that a node is a gradient of, has one filter for each channel."""
    assert isinstance(node.attrs, ConvolutionAttrs)
    z = sizes_of(node)
    return node.attrs.groups == z.c == z.k


MOST_TERMS = 121
"""Of an element that is a sum over a window: filters of 11 x 11."""


def is_sum_of_windows(node: Node) -> bool:
    """Whether a convolution of any number of images becomes a sum over windows of one channel each (see
    passes/depthwise_to_sums.py)."""
    attrs, image, filters = node.attrs, *(operand.type.shape for operand in node.operands)
    known = all(isinstance(dim, int) for dim in (*image[1:], *filters))
    return (isinstance(attrs, ConvolutionAttrs) and node.kind is OpKind.CONVOLUTION and known and len(image) == 4
            and attrs.groups == image[-1] == filters[0] and prod(d for d in filters[1:-1] if isinstance(d, int))
            <= MOST_TERMS)


def multiplications_of(node: Node) -> int:
    """Multiplications of image elements by filter elements, in a static convolution or a gradient of one."""
    assert isinstance(node.attrs, ConvolutionAttrs)
    z = sizes_of(node)
    return z.n * z.k * prod(z.windows) * prod(z.window) * (z.c // node.attrs.groups)


def terms_of(node: Node) -> int:
    """How many terms a static convolution, or a gradient of one, sums for each element; of an input gradient, on
    average."""
    return max(1, multiplications_of(node) // max(1, node.type.numel))
