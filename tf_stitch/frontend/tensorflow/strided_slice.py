"""The index language of StridedSlice: masks, ellipsis, new and shrunk axes (core/util/strided_slice_op.cc)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import EllipsisType
from typing import TypeAlias

from tf_stitch.errors import UnsupportedError
from tf_stitch.frontend.tensorflow.node_context import NodeContext, StaticValue
from tf_stitch.frontend.tensorflow.size_names import less
from tf_stitch.ir.types import Dim, Shape, Symbol

NumpyIndex: TypeAlias = tuple[int | slice | EllipsisType | None, ...]


@dataclass(frozen=True)
class Spec:
    """One entry of the index.

    Attributes:
        begin, end: an element, or None for "from / to the end".
        read: for one element that is decided at run time, the entry of begin that holds it.
    """

    begin: Dim | None
    end: Dim | None
    stride: int
    shrink: bool = False
    read: int | None = None


@dataclass(frozen=True)
class SlicePlan:
    """A slice of every axis, then a reshape.

    Attributes:
        shape: the result's, after shrunk axes left and new ones came.
        read: axes of which one element is taken that is decided at run time, and the entry of begin that holds it; the
            slice has them whole.
    """

    begin: tuple[int, ...]
    strides: tuple[int, ...]
    sizes: Shape
    shape: Shape
    read: tuple[tuple[int, int], ...] = ()


def _entries(ctx: NodeContext, first: int) -> list[Spec | EllipsisType | None]:
    """The index as written: a Spec per sliced axis, None for a new axis, Ellipsis."""
    strides = ctx.ints(first + 2, "the strides")
    begins, ends = (_elements(ctx.static(first + i), len(strides)) for i in range(2))
    masks = {name: ctx.attrs.integer(name) for name in
             ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")}
    entries: list[Spec | EllipsisType | None] = []
    for i, stride in enumerate(strides):
        bit = 1 << i
        if masks["ellipsis_mask"] & bit:
            entries.append(Ellipsis)
        elif masks["new_axis_mask"] & bit:
            entries.append(None)
        else:
            shrink = bool(masks["shrink_axis_mask"] & bit)
            no_begin, no_end = bool(masks["begin_mask"] & bit) and not shrink, bool(masks["end_mask"] & bit)
            if shrink and begins[i] is None:
                entries.append(Spec(None, None, 1, shrink, read=i))
                continue
            if (not no_begin and begins[i] is None) or (not (no_end or shrink) and ends[i] is None):
                raise UnsupportedError("the bounds of the slice are decided at run time")
            entries.append(Spec(None if no_begin else begins[i], None if no_end or shrink else ends[i], stride, shrink))
    return entries


def _elements(value: StaticValue | None, count: int) -> list[Dim | None]:
    return [None] * count if value is None else list(value.flat)


def numpy_index(ctx: NodeContext) -> NumpyIndex:
    """The index as NumPy writes it; inputs 1 to 3 are begin, end and strides."""
    index: list[int | slice | EllipsisType | None] = []
    for entry in _entries(ctx, 1):
        if not isinstance(entry, Spec):
            index.append(entry)
        elif entry.read is not None or isinstance(entry.begin, Symbol) or isinstance(entry.end, Symbol):
            raise UnsupportedError("the bounds of the slice are decided at run time")
        elif entry.shrink and entry.begin is not None:
            index.append(entry.begin)
        else:
            index.append(slice(entry.begin, entry.end, entry.stride))
    return tuple(index)


def slice_plan(ctx: NodeContext, shape: Shape, first: int = 1) -> SlicePlan:
    """How a tensor of `shape` is sliced.

    Args:
        first: the input that holds begin; end and strides follow.

    Raises:
        UnsupportedError: a bound that is not known, or that depends on a size that is not.
    """
    begin: list[int] = []
    strides: list[int] = []
    sizes: list[Dim] = []
    out: list[Dim] = []
    read: list[tuple[int, int]] = []
    for spec in _inlined(ctx, shape, first):
        if spec is None:
            out.append(1)
            continue
        if spec.read is not None:
            read.append((len(begin), spec.read))
            spec = Spec(None, None, 1, shrink=True)
        axis_begin, size = _axis(spec, shape[len(begin)])
        begin.append(axis_begin)
        strides.append(1 if spec.shrink else spec.stride)
        sizes.append(size)
        if not spec.shrink:
            out.append(size)
    return SlicePlan(tuple(begin), tuple(strides), tuple(sizes), tuple(out), tuple(read))


def sliced_sizes(ctx: NodeContext, shape: Shape) -> list[Dim | None]:
    """Shape of the slice of a tensor of `shape`, None for a size that is decided at run time. Errors as slice_plan,
    where not even the rank is known."""
    out: list[Dim | None] = []
    axes = iter(shape)
    for spec in _inlined(ctx, shape, 1):
        dim = 1 if spec is None else next(axes)
        if spec is None:
            out.append(1)
        elif not spec.shrink:
            out.append(_size_or_none(spec, dim))
    return out


def _size_or_none(spec: Spec, dim: Dim) -> Dim | None:
    try:
        return _axis(spec, dim)[1]
    except UnsupportedError:
        if spec.stride == 1 and spec.begin in (None, 0) and isinstance(spec.end, int) and spec.end < 0:
            return less(dim, -spec.end)
        if spec.stride == 1 and isinstance(spec.begin, int) and spec.begin > 0 and spec.end is None:
            return less(dim, spec.begin)
        return None


def _inlined(ctx: NodeContext, shape: Shape, first: int) -> Iterator[Spec | None]:
    """The index without an ellipsis: a Spec for every axis of `shape` in turn, and None for a new axis."""
    entries = _entries(ctx, first)
    sliced = sum(isinstance(e, Spec) for e in entries)
    if Ellipsis not in entries:
        entries.append(Ellipsis)
    for entry in entries:
        if isinstance(entry, EllipsisType):
            yield from [Spec(None, None, 1)] * (len(shape) - sliced)
        else:
            yield entry


def _axis(spec: Spec, dim: Dim) -> tuple[int, Dim]:
    """First element and size of one axis."""
    if spec.shrink and spec.begin is not None:
        if isinstance(spec.begin, int) and (isinstance(dim, int) or spec.begin >= 0):
            at = spec.begin if isinstance(dim, Symbol) or spec.begin >= 0 else spec.begin + dim
            if isinstance(dim, int) and not 0 <= at < dim:
                raise UnsupportedError(f"slice index {spec.begin} of an axis of {dim}")
            return at, 1
        raise UnsupportedError("the index depends on a size that is decided at run time")
    if spec.stride == 1 and spec.begin in (None, 0) and (spec.end is None or spec.end == dim):
        return 0, dim
    if isinstance(dim, Symbol) or isinstance(spec.begin, Symbol) or isinstance(spec.end, Symbol):
        raise UnsupportedError("the slice depends on a size that is decided at run time")
    taken = range(*slice(spec.begin, spec.end, spec.stride).indices(dim))
    return (taken.start if taken else 0), len(taken)
