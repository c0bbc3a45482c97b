"""Boxes of a tensor that other nodes are, through slices and reshapes: ranges of its axes, elements in C order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import SliceAttrs
from tf_stitch.ir.op_kinds import OpKind


@dataclass(frozen=True)
class Box:
    """begin[a] <= index < begin[a] + sizes[a], of each axis a."""

    begin: tuple[int, ...]
    sizes: tuple[int, ...]

    def axes(self, dims: Sequence[int]) -> list[int] | None:
        """The box's axis behind each of `dims`, -1 for one of 1; None unless the others are the box's own, in order."""
        mine = [a for a, size in enumerate(self.sizes) if size != 1]
        if [self.sizes[a] for a in mine] != [d for d in dims if d != 1]:
            return None
        remaining = iter(mine)
        return [-1 if d == 1 else next(remaining) for d in dims]

    def part(self, axis: int, first: int, size: int) -> Box:
        """`size` of an axis, from the `first` of the box on."""
        begin, sizes = list(self.begin), list(self.sizes)
        begin[axis] += first
        sizes[axis] = size
        return replace(self, begin=tuple(begin), sizes=tuple(sizes))


def whole(node: Node) -> Box:
    """All of a static tensor."""
    return Box((0,) * node.type.rank, node.type.dims)


def box_of(node: Node, tensor: Node) -> Box | None:
    """The box of `tensor` that `node` is; None if it is none."""
    if node is tensor:
        return whole(tensor)
    if not node.type.is_static:
        return None
    if node.kind is OpKind.RESHAPE:
        return box_of(node.operands[0], tensor)
    if not isinstance(node.attrs, SliceAttrs) or any(s != 1 for s in node.attrs.strides):
        return None
    box = box_of(node.operands[0], tensor)
    axes = None if box is None else box.axes(node.operands[0].type.dims)
    if box is None or axes is None:
        return None
    for axis, first, size in zip(axes, node.attrs.begin, node.type.dims, strict=True):
        if axis >= 0:
            box = box.part(axis, first, size)
    return box
