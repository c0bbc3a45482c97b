"""Convolutions of images of three axes as ones of two where windows leave axes as they are: images of a video that are
convolved each by itself, or single elements over time. A library has more kernels for these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.convolutions import ConvolutionSizes, sizes_of
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.rewriter import rewrite


@dataclass(frozen=True)
class FoldImageAxes:
    """Folds axes of convolutions whose windows have one element and are everywhere: along the first axis, which goes to
    the batch, or along the last two, which become one; also of their gradients."""

    name: str = "fold_image_axes"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return rewrite(graph, (_folded,))


def _folded(node: Node) -> Node | None:
    attrs = node.attrs
    if not isinstance(attrs, ConvolutionAttrs) or len(attrs.strides) != 3:
        return None
    z = sizes_of(node)
    as_it_is = [(extent, stride, padding) == (1, 1, 0) for extent, stride, padding in
                zip(z.window, attrs.strides, attrs.padding, strict=True)]
    if as_it_is[0]:
        kept, n = slice(1, 3), z.n * z.image[0]
        image, windows = z.image[1:], z.windows[1:]
    elif as_it_is[1] and as_it_is[2]:
        kept, n = slice(0, 2), z.n
        image, windows = _last_two_as_one(z.image), _last_two_as_one(z.windows)
    else:
        return None
    return _of(node, attrs, kept, ConvolutionSizes(n, z.c, z.k, image, z.window[kept], windows))


def _last_two_as_one(sizes: Sequence[int]) -> tuple[int, ...]:
    depth, height, width = sizes
    return depth, height * width


def _of(node: Node, attrs: ConvolutionAttrs, kept: slice, z: ConvolutionSizes) -> Node:
    """The same of these sizes."""
    b, filters = Builder(node.loc), (z.k, *z.window, z.c // attrs.groups)
    image, result = (z.n, *z.image, z.c), (z.n, *z.windows, z.k)
    one, other, size = {OpKind.CONVOLUTION: (image, filters, ()),
                        OpKind.CONVOLUTION_INPUT_GRAD: (result, filters, z.image),
                        OpKind.CONVOLUTION_FILTER_GRAD: (image, result, z.window)}[node.kind]
    flat = replace(attrs, strides=attrs.strides[kept], dilations=attrs.dilations[kept], padding=attrs.padding[kept],
                   size=size)
    made = b.convolution(node.kind, b.reshape(node.operands[0], one), b.reshape(node.operands[1], other), flat)
    return b.reshape(made, node.type.dims)
