"""Dilated convolutions of whole images. TensorFlow cuts an image into one for each place in a block of `dilation`
elements (SpaceToBatchND), convolves these by dense windows and joins the results (BatchToSpaceND); a library convolves
the whole image by dilated windows, and nothing has to be transposed."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import ConvolutionAttrs, TransposeAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import Dim
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.rewriter import rewrite


@dataclass(frozen=True)
class WholeDilatedConvolutions:
    """A convolution, or a gradient of an image, of what was cut becomes the cut of a dilated one, which what joins it
    undoes; a gradient of filters becomes one of whole images. Each is so whatever else uses what was cut, and whatever
    follows.

    Attributes:
        kinds: those that a library computes as fast dilated as of cut images; others, and those of groups, stay.
        least_axes: along which images are cut; of fewer they stay.
    """

    kinds: AbstractSet[OpKind]
    least_axes: int = 1
    name: str = "whole_dilated_convolutions"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        return rewrite(graph, (partial(_whole, self.kinds, self.least_axes),))


@dataclass(frozen=True)
class _Cut:
    """Images [n, 1, ..., steps blocks, c] as [blocks n, 1, ..., steps, c].

    Attributes:
        whole: the images.
        blocks: elements of a block along all axes of images; 1 along those that are not cut.
        axes: how many of the last are cut.
    """

    whole: Node
    blocks: tuple[int, ...]
    axes: int

    def again(self, whole: Node, like: Node) -> Node:
        """Other images, cut so; of the type of `like`."""
        b, rank = Builder(like.loc), like.type.rank
        pairs = [d for pair in zip(like.type.shape[-1 - self.axes:-1], self.blocks[-self.axes:], strict=True)
                 for d in pair]
        split = b.reshape(whole, (whole.type.shape[0], *pairs, whole.type.shape[rank - 1]))
        return b.reshape(b.transpose(split, _order(self.axes)), like.type.shape)


def _whole(kinds: AbstractSet[OpKind], least_axes: int, node: Node) -> Node | None:
    attrs = node.attrs
    if node.kind not in kinds or not isinstance(attrs, ConvolutionAttrs) or attrs.groups > 1:
        return None
    if any(attrs.padding) or {*attrs.strides} != {1}:
        return None
    first, other = _cut(node.operands[0]), node.operands[1]
    if first is None or sum(block > 1 for block in first.blocks) < least_axes:
        return None
    dilations = tuple(d * block for d, block in zip(attrs.dilations, first.blocks, strict=True))
    dilated, b = replace(attrs, dilations=dilations), Builder(node.loc)
    if node.kind is OpKind.CONVOLUTION_FILTER_GRAD:
        second = _cut(other)
        if second is None or second.blocks != first.blocks:
            return None
        return b.convolution(node.kind, first.whole, second.whole, dilated)
    size = tuple(s * block for s, block in zip(attrs.size, first.blocks, strict=False))
    return first.again(b.convolution(node.kind, first.whole, other, replace(dilated, size=size)), node)


def _cut(node: Node) -> _Cut | None:
    """As legalize/blocks.py makes it, perhaps with axes of one element put in front of those that are cut."""
    moved = node.operands[0] if node.kind is OpKind.RESHAPE else node
    if not isinstance(moved.attrs, TransposeAttrs):
        return None
    axes, odd = divmod(moved.type.rank - 2, 2)
    ones = node.type.rank - 2 - axes
    if odd or axes < 1 or ones < 0 or moved.attrs.perm != _order(axes):
        return None
    n, *pairs, c = moved.operands[0].type.dims
    steps, blocks = pairs[::2], pairs[1::2]
    if node.type.dims[1:] != (*(1,) * ones, *steps, c):
        return None
    whole: tuple[Dim, ...] = (n, *(1,) * ones, *(s * block for s, block in zip(steps, blocks, strict=True)), c)
    return _Cut(Builder(node.loc).reshape(moved.operands[0], whole), (*(1,) * ones, *blocks), axes)


def _order(axes: int) -> tuple[int, ...]:
    """Of [n, steps, block, steps, block, ..., c], as cut images have it: [block, block, ..., n, steps, ..., c]."""
    return (*range(2, 2 * axes + 1, 2), 0, *range(1, 2 * axes, 2), 2 * axes + 1)
