"""Convolutions of single elements are matmuls of images by filters, which a library computes with what follows, and for
which no filter is transposed."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.convolutions import sizes_of
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import ConvolutionAttrs, DotAttrs, TransposeAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.rewriter import rewrite


@dataclass(frozen=True)
class ConvolutionsToMatmuls:
    """Makes matmuls of convolutions by filters of one element that read all elements of an image, and of gradients."""

    name: str = "convolutions_to_matmuls"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return rewrite(graph, (_matmul, _transposed_product))


def _matmul(node: Node) -> Node | None:
    attrs = node.attrs
    if not isinstance(attrs, ConvolutionAttrs) or attrs.groups > 1 or any(attrs.padding):
        return None
    z = sizes_of(node)
    if {*attrs.strides, *z.window} != {1}:
        return None
    b, rows = Builder(node.loc), z.n * prod(z.image)
    one, other = node.operands
    if node.kind is OpKind.CONVOLUTION_FILTER_GRAD:
        matmul = b.dot(b.reshape(other, (rows, z.k)), b.reshape(one, (rows, z.c)), transpose_a=True)
        return b.reshape(matmul, node.type.shape)
    images = b.reshape(one, (rows, one.type.dims[-1]))
    forward = node.kind is OpKind.CONVOLUTION
    last = len(z.window) + 1
    if isinstance(other.attrs, TransposeAttrs) and other.attrs.perm == (last, *range(last)):
        matmul = b.dot(images, b.reshape(other.operands[0], (z.c, z.k)), transpose_b=not forward)
    else:
        matmul = b.dot(images, b.reshape(other, (z.k, z.c)), transpose_b=forward)
    return b.reshape(matmul, node.type.shape)


def _transposed_product(node: Node) -> Node | None:
    """A gradient [k, 1, ..., c] of filters that is turned to [1, ..., c, k]: the matmul of the exchanged matrices."""
    rank = node.type.rank
    if not isinstance(node.attrs, TransposeAttrs) or rank not in (4, 5) or node.attrs.perm != (*range(1, rank), 0):
        return None
    view = node.operands[0]
    matmul = view.operands[0] if view.kind is OpKind.RESHAPE else view
    if not isinstance(matmul.attrs, DotAttrs) or not matmul.attrs.transpose_a or matmul.attrs.transpose_b \
            or view.type.dims != (matmul.type.dims[0], *(1,) * (rank - 2), *matmul.type.dims[1:]):
        return None
    b, (left, right) = Builder(node.loc), matmul.operands
    return b.reshape(b.dot(right, left, transpose_a=True), node.type.shape)
