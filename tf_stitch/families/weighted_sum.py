"""What kernels of weighted sums over windows of images are of (depthwise convolutions): the parts of a pattern, and how
windows lie along an axis of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConstantAttrs, PadAttrs, ReduceAttrs, WindowsAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir.index import Index
from tf_stitch.planning.pattern import Pattern


class WeightedSum(NamedTuple):
    """A weighted sum over windows, and what they are of.

    Attributes:
        total: [n, p, q, c].
        weights: what every element of the windows is multiplied by.
        windows: how they lie in the padded image.
        image: [n, *size, c]; `low` zeros stand before it along height and width.
        widened: the image's elements are halves, which are multiplied in a wider type.
    """

    total: Node
    weights: Node
    windows: WindowsAttrs
    image: Node
    low: tuple[int, int]
    size: tuple[int, int]
    widened: bool

    def axes(self) -> tuple[Axis, Axis]:
        """Height and width."""
        w = self.windows
        rows, columns = (Axis(self.size[a], w.extents[a], w.strides[a], w.dilations[a], self.low[a], w.counts[a])
                         for a in (0, 1))
        return rows, columns


def weighted_sum(pattern: Pattern) -> WeightedSum:
    """The one that a pattern is of.

    Raises:
        ScheduleError: it is of something else.
    """
    reductions = [n for n in pattern.nodes if n.category is Category.REDUCTION]
    if len(reductions) != 1:
        raise ScheduleError("no single reduction")
    [total] = reductions
    weighted = total.operands[0]
    if total.kind is not OpKind.SUM or not isinstance(total.attrs, ReduceAttrs) or total.attrs.axes != (3, 4) \
            or weighted.kind is not OpKind.MUL or not pattern.holds(weighted):
        raise ScheduleError("no sum over windows", total.loc)
    pairs = (weighted.operands, weighted.operands[::-1])
    both = next(((seen, weights) for seen, weights in pairs if isinstance(_narrow(seen, pattern).attrs, WindowsAttrs)
                 and seen.type.dims == weighted.type.dims and pattern.holds(seen)), None)
    if both is None:
        raise ScheduleError("no sum over windows", total.loc)
    seen, weights = both
    windows = _narrow(seen, pattern)
    if any(n in (weighted, seen, windows) for n in pattern.outputs):
        raise ScheduleError("windows are wanted for themselves", total.loc)
    image, low = _unpadded(windows.operands[0], pattern)
    _, height, width, _ = image.type.dims
    assert isinstance(windows.attrs, WindowsAttrs)
    return WeightedSum(total, weights, windows.attrs, image, low, (height, width), windows is not seen)


def _narrow(seen: Node, pattern: Pattern) -> Node:
    """Windows before they are widened to the type that halves are computed in."""
    if seen.kind is not OpKind.CAST or not pattern.holds(seen):
        return seen
    source = seen.operands[0]
    return source if pattern.holds(source) and seen.type.dtype is source.type.dtype.compute else seen


def _unpadded(image: Node, pattern: Pattern) -> tuple[Node, tuple[int, int]]:
    """The image inside of zeros along height and width, and how many stand before it. They add nothing to a sum."""
    attrs = image.attrs
    if not isinstance(attrs, PadAttrs) or not pattern.holds(image) or image in pattern.outputs:
        return image, (0, 0)
    fill = image.operands[1].attrs
    if not isinstance(fill, ConstantAttrs) or fill.value.any() or attrs.low[0] or attrs.low[3] \
            or image.type.dims[::3] != image.operands[0].type.dims[::3]:
        return image, (0, 0)
    return image.operands[0], (attrs.low[1], attrs.low[2])


@dataclass(frozen=True)
class Axis:
    """How windows lie along an axis of an image."""

    size: int
    extent: int
    stride: int
    dilation: int
    low: int
    count: int

    @property
    def whole(self) -> tuple[int, int]:
        """The first window that lies in the image, and the one behind the last."""
        first = min(max(ceil_div(self.low, self.stride), 0), self.count)
        last = (self.size + self.low - self.dilation * (self.extent - 1) - 1) // self.stride + 1
        return first, max(first, min(last, self.count))

    def at(self, window: Index, place: Index) -> Index:
        """Where in the image a place of a window is."""
        return window * self.stride + place * self.dilation - self.low

    def has(self, window: int, place: int) -> bool:
        return 0 <= window * self.stride + place * self.dilation - self.low < self.size
