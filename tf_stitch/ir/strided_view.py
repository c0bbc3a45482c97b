"""Where the elements of a view lie in the memory of the value that it is a view of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import contiguous_strides
from tf_stitch.ir.op_attrs import SliceAttrs, TransposeAttrs
from tf_stitch.ir.op_kinds import OpKind

VIEWS = (OpKind.RESHAPE, OpKind.TRANSPOSE, OpKind.SLICE)


@dataclass(frozen=True)
class Strides:
    """Elements from the start of memory to the first element, and between neighbours along each axis."""

    offset: int
    axes: tuple[int, ...]


def view_strides(path: Sequence[Node], memory: Node) -> Strides | None:
    """How the value of the last of `path` lies in the contiguous memory of `memory`; None if a reshape would have to
    copy.

    Args:
        path: static VIEWS, the first of `memory`, each other of the one before.
    """
    dims, offset, strides = memory.type.dims, 0, contiguous_strides(memory.type.dims)
    for node in path:
        if isinstance(node.attrs, TransposeAttrs):
            strides = [strides[axis] for axis in node.attrs.perm]
        elif isinstance(node.attrs, SliceAttrs):
            offset += sum(begin * stride for begin, stride in zip(node.attrs.begin, strides, strict=True))
            strides = [stride * step for stride, step in zip(strides, node.attrs.strides, strict=True)]
        else:
            found = _reshaped(dims, strides, node.type.dims)
            if found is None:
                return None
            strides = found
        dims = node.type.dims
    return Strides(offset, tuple(strides))


def _reshaped(dims: Sequence[int], strides: Sequence[int], target: Sequence[int]) -> list[int] | None:
    runs: list[tuple[int, int]] = []  # elements at equal distances, and that distance
    for dim, stride in zip(dims, strides, strict=True):
        if runs and runs[-1][1] == stride * dim:
            runs[-1] = runs[-1][0] * dim, stride
        elif dim != 1:
            runs.append((dim, stride))
    found: list[int] = []
    for dim in reversed(target):
        if dim == 1:
            found.append(0)
            continue
        if not runs or runs[-1][0] % dim:
            return None
        count, stride = runs.pop()
        found.append(stride)
        if count > dim:
            runs.append((count // dim, stride * dim))
    return found[::-1]
