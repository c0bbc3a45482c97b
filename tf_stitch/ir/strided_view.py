"""Where the elements of a view lie in the memory of the value that it is a view of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import contiguous_strides
from tf_stitch.ir.op_attrs import SliceAttrs, TransposeAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import divides

VIEWS = (OpKind.RESHAPE, OpKind.TRANSPOSE, OpKind.SLICE)


@dataclass(frozen=True)
class Strides:
    """Elements from the start of memory to the first element, and between neighbours along each axis."""

    offset: int
    axes: tuple[int, ...]


def path_to(node: Node, is_memory: Callable[[Node], bool]) -> list[Node]:
    """The views that lead to a node from what is memory, or is no view itself."""
    path: list[Node] = []
    while node.kind in VIEWS and not is_memory(node):
        path.append(node)
        node = node.operands[0]
    return path[::-1]


def view_strides(path: Sequence[Node], memory: Node) -> Strides | None:
    """How the value of the last of `path` lies in the contiguous memory of `memory`; None if a reshape would have to
    copy, or there is nothing to reshape.

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
            found = reshaped(dims, strides, node.type.dims)
            if found is None:
                return None
            strides = found
        dims = node.type.dims
    return Strides(offset, tuple(strides))


def matrices_read(path: Sequence[Node]) -> tuple[tuple[int, ...], Strides] | None:
    """How the matrices [..., rows, columns] of the last of `path` lie in the contiguous memory that they are a view of:
    sizes and strides of axes that count them in this order, of which the last two are rows and columns. None if there
    are none such.

    Args:
        path: static VIEWS, at least one, that lead from there to them.
    """
    matrices, before = path[-1].type.dims, list(path)
    while before and before[-1].kind is OpKind.RESHAPE:
        before.pop()
    memory = path[0].operands[0]
    found = view_strides(before, memory)
    axes = None if found is None else _split((before[-1] if before else memory).type.dims, found.axes, matrices[-2:])
    return None if found is None or axes is None else (axes[0], Strides(found.offset, axes[1]))


def matrices_written(path: Sequence[Node]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """How the matrices of the operand of the first of `path` lie in the contiguous memory of the last: sizes and
    strides as above.

    Args:
        path: static reshapes and transposes, at least one, each of the one before.
    """
    matrices, strides = path[0].operands[0].type.dims, contiguous_strides(path[-1].type.dims)
    for i, node in reversed(list(enumerate(path))):
        if isinstance(node.attrs, TransposeAttrs):
            strides = [strides[node.attrs.perm.index(axis)] for axis in range(node.type.rank)]
        elif i == 0:
            return _split(node.type.dims, strides, matrices[-2:])
        else:
            found = reshaped(node.type.dims, strides, node.operands[0].type.dims)
            if found is None:
                return None
            strides = found
    return matrices, tuple(strides)


def reshaped(dims: Sequence[int], strides: Sequence[int], target: Sequence[int]) -> list[int] | None:
    """Strides of axes of other sizes, `target`, that count the same elements in C order; None if there are none."""
    found = _split(dims, strides, target)
    return None if found is None else list(found[1][len(found[1]) - len(target):])


def _split(dims: Sequence[int], strides: Sequence[int], last: Sequence[int]
           ) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Sizes and strides of axes that count the same elements in the same order, the last of which have these sizes."""
    if 0 in dims or 0 in last:
        return None
    runs: list[tuple[int, int]] = []  # elements at equal distances, and that distance
    for dim, stride in zip(dims, strides, strict=True):
        if runs and runs[-1][1] == stride * dim:
            runs[-1] = runs[-1][0] * dim, stride
        elif dim != 1:
            runs.append((dim, stride))
    found: list[tuple[int, int]] = []
    for dim in reversed(last):
        if dim == 1:
            found.append((1, 0))
            continue
        if not runs or not divides(dim, runs[-1][0]):
            return None
        count, stride = runs.pop()
        found.append((dim, stride))
        if count != dim:
            runs.append((count // dim, stride * dim))
    axes = [*runs, *reversed(found)]
    return tuple(dim for dim, _ in axes), tuple(stride for _, stride in axes)
