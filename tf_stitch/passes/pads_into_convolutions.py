"""Zeros around images as padding of dilated convolutions. What TensorFlow adds to an image so that blocks divide it
goes, too, and what it crops of the result. A library pads both sides of an image alike: what one side has more stays
a pad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.graph import Node, TensorGraph, users_of, with_operands
from tf_stitch.ir.op_attrs import ConstantAttrs, ConvolutionAttrs, PadAttrs, SliceAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.pass_manager import PassResult
from tf_stitch.passes.rewriter import rewrite

Box: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Where a part begins, and its sizes."""


@dataclass(frozen=True)
class PadsIntoConvolutions:
    """Moves padding into convolutions of passes/whole_dilated_convolutions.py: strides of 1, nothing padded yet."""

    name: str = "pads_into_convolutions"

    def run(self, graph: TensorGraph) -> PassResult[TensorGraph]:
        cropped = _without_crops(graph)
        rest = rewrite(cropped.graph, (_filter_grad,))
        return PassResult(rest.graph, cropped.modified or rest.modified)


@dataclass(frozen=True)
class _Padded:
    """Images, and zeros before and behind them along the axes of images."""

    image: Node
    low: tuple[int, ...]
    high: tuple[int, ...]


@dataclass(frozen=True)
class _Sides:
    """What is padded before and behind images, axis by axis; none is negative."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def both(self) -> tuple[int, ...]:
        return tuple(map(min, self.low, self.high))

    @property
    def more(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Padding of images [n, *image, c] beyond what both sides have."""
        before, behind = (tuple(s - p for s, p in zip(side, self.both, strict=True)) for side in (self.low, self.high))
        return (0, *before, 0), (0, *behind, 0)

    def padded(self, b: Builder, x: Node) -> Node:
        before, behind = self.more
        return b.pad(x, b.constant(0, x.type.dtype), before, behind) if any((*before, *behind)) else x


def _without_crops(graph: TensorGraph) -> PassResult[TensorGraph]:
    """Convolutions, and gradients of images, of which only parts are read, as the part that has all of them."""
    nodes = graph.nodes()
    users, given = users_of(nodes), {node for _, node in graph.outputs}
    new: dict[Node, Node] = {}
    boxes: dict[Node, tuple[Node, Box]] = {}
    for node in nodes:
        new[node] = same = with_operands(node, tuple(new[o] for o in node.operands))
        box = None if node in given else _box(users[node])
        if box is not None and (part := _part_of_result(same, box)) is not None:
            boxes[node] = part, box
        if isinstance(node.attrs, SliceAttrs) and node.operands[0] in boxes:
            part, (begin, _) = boxes[node.operands[0]]
            new[node] = _sliced(node, part, begin)
    if not boxes:
        return PassResult(graph, modified=False)
    return PassResult(TensorGraph(graph.name, [(k, new[n]) for k, n in graph.outputs]), modified=True)


def _box(users: Sequence[Node]) -> Box | None:
    """What slices read, where nothing else reads."""
    slices = [user.attrs for user in users if isinstance(user.attrs, SliceAttrs)]
    if not slices or len(slices) < len(users) or any(min(s.strides) < 1 for s in slices):
        return None
    begin = tuple(map(min, zip(*(s.begin for s in slices), strict=True)))
    ends = [[b + step * (size - 1) + 1 for b, step, size in zip(s.begin, s.strides, user.type.dims, strict=True)]
            for s, user in zip(slices, users, strict=True)]
    return begin, tuple(max(end) - b for b, *end in zip(begin, *ends, strict=True))


def _sliced(node: Node, part: Node, begin: Sequence[int]) -> Node:
    """A slice, of a part that begins there."""
    assert isinstance(node.attrs, SliceAttrs)
    if node.type == part.type and {*node.attrs.strides} == {1}:
        return part
    (n, *along, c), (_, *before, _) = node.attrs.begin, begin
    first = (n, *(s - b for s, b in zip(along, before, strict=True)), c)
    return Builder(node.loc).slice(part, first, node.attrs.strides, node.attrs.sizes)


def _part_of_result(whole: Node, box: Box) -> Node | None:
    """Of a convolution, or a gradient of an image, a part along the axes of images, which is read through `box`."""
    made = whole.operands[0] if whole.kind is OpKind.RESHAPE else whole
    attrs, (begin, sizes) = made.attrs, box
    if not isinstance(attrs, ConvolutionAttrs) or not _is_dilated(attrs) or not _has_ones_more(made, whole):
        return None
    if made.kind is OpKind.CONVOLUTION_FILTER_GRAD or min(sizes) < 1:
        return None
    ones = (1,) * (made.type.rank - whole.type.rank)
    part = _convolution if made.kind is OpKind.CONVOLUTION else _image_grad
    found = part(made, attrs, (*(0 for _ in ones), *begin[1:-1]), (*ones, *sizes[1:-1]))
    shape = whole.type.shape
    return found and Builder(whole.loc).reshape(found, (shape[0], *sizes[1:-1], shape[-1]))


def _convolution(node: Node, attrs: ConvolutionAttrs, begin: Sequence[int], sizes: Sequence[int]) -> Node | None:
    b, x, filters = Builder(node.loc), _padded(node.operands[0]), node.operands[1]
    sides = _sides([a - s for a, s in zip(x.low, begin, strict=True)], x.image, sizes, attrs, filters.type.dims[1:-1])
    if sides is None:
        return None
    return b.convolution(node.kind, sides.padded(b, x.image), filters, replace(attrs, padding=sides.both))


def _image_grad(node: Node, attrs: ConvolutionAttrs, begin: Sequence[int], sizes: Sequence[int]) -> Node | None:
    b, gradient, filters = Builder(node.loc), _padded(node.operands[0]), node.operands[1]
    low = [s - a for s, a in zip(begin, gradient.low, strict=True)]
    windows = gradient.image.type.dims[1:-1]
    sides = _sides_of(low, sizes, windows, attrs, filters.type.dims[1:-1])
    if sides is None or not any((*sides.both, *gradient.low, *gradient.high)):
        return None
    before, behind = sides.more
    size = tuple(s + i + j for s, i, j in zip(sizes, before[1:], behind[1:], strict=False))
    made = b.convolution(node.kind, gradient.image, filters, replace(attrs, padding=sides.both, size=size))
    if not any((*before, *behind)):
        return made
    return b.slice(made, before, (1,) * made.type.rank, (made.type.shape[0], *sizes, made.type.shape[-1]))


def _filter_grad(node: Node) -> Node | None:
    attrs = node.attrs
    if not isinstance(attrs, ConvolutionAttrs) or node.kind is not OpKind.CONVOLUTION_FILTER_GRAD \
            or not _is_dilated(attrs):
        return None
    b, x, gradient = Builder(node.loc), _padded(node.operands[0]), _padded(node.operands[1])
    low = [i - j for i, j in zip(x.low, gradient.low, strict=True)]
    sides = _sides(low, x.image, gradient.image.type.dims[1:-1], attrs, attrs.size)
    if sides is None or not any((*sides.both, *gradient.low, *gradient.high)):
        return None
    return b.convolution(node.kind, sides.padded(b, x.image), gradient.image, replace(attrs, padding=sides.both))


def _is_dilated(attrs: ConvolutionAttrs) -> bool:
    return max(attrs.dilations) > 1 and {*attrs.strides} == {1} and not any(attrs.padding)


def _sides(low: Sequence[int], x: Node, windows: Sequence[int], attrs: ConvolutionAttrs, extents: Sequence[int]
           ) -> _Sides | None:
    return _sides_of(low, x.type.dims[1:-1], windows, attrs, extents)


def _sides_of(low: Sequence[int], image: Sequence[int], windows: Sequence[int], attrs: ConvolutionAttrs,
              extents: Sequence[int]) -> _Sides | None:
    """So that images have this many windows; None where windows leave out elements at an end."""
    reach = [d * (extent - 1) for d, extent in zip(attrs.dilations, extents, strict=True)]
    high = [w + r - s - i for w, r, s, i in zip(windows, reach, image, low, strict=True)]
    return None if min((*low, *high)) < 0 else _Sides(tuple(low), tuple(high))


def _padded(node: Node) -> _Padded:
    """Images without the zeros around them, of the same rank."""
    rank, image = node.type.rank, node
    low, high = [0] * (rank - 2), [0] * (rank - 2)
    while True:
        attrs, ones = image.attrs, rank - image.type.rank
        if isinstance(attrs, PadAttrs) and _is_zero(image.operands[1]) and not any(
                (attrs.low[0], attrs.low[-1], attrs.high[0], attrs.high[-1])) and min((*attrs.low, *attrs.high)) >= 0:
            for axis in range(1, image.type.rank - 1):
                low[ones + axis - 1] += attrs.low[axis]
                high[ones + axis - 1] += attrs.high[axis]
        elif image.kind is not OpKind.RESHAPE or not _has_ones_more(image, image.operands[0]):
            break
        image = image.operands[0]
    dims = image.type.shape
    shape = (dims[0], *(1,) * (rank - len(dims)), *dims[1:])
    return _Padded(Builder(node.loc).reshape(image, shape), tuple(low), tuple(high))


def _has_ones_more(node: Node, other: Node) -> bool:
    """Whether images are those of `other` but for axes of one element behind the first."""
    n, *rest = other.type.dims
    return other.type.rank > 2 and node.type.dims == (n, *(1,) * (node.type.rank - other.type.rank), *rest)


def _is_zero(node: Node) -> bool:
    return isinstance(node.attrs, ConstantAttrs) and not node.attrs.value.any()
