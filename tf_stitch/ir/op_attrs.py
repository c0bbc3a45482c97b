"""Typed attributes of tensor IR ops; frozen, so that nodes can be compared and hashed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.types import Shape, TensorType, static_shape

RARE = {"rare": True}
"""Of a field that texts leave out where it has its default."""


@dataclass(frozen=True)
class Attrs:
    """No attributes; base of all."""

    @cached_property
    def text(self) -> str:
        """The attributes as "name=value, name=value"; contents of larger arrays by their digest."""
        return ", ".join(f"{f.name}={_text(getattr(self, f.name))}" for f in fields(self)
                         if not (f.metadata and getattr(self, f.name) == f.default))


def _text(value: object) -> str:
    if isinstance(value, np.ndarray):
        if value.size <= 8:
            return str(value.tolist())
        return f"array{list(value.shape)}#{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, tuple):
        return "[" + ",".join(map(str, value)) + "]"
    return str(getattr(value, "value", value))


@dataclass(frozen=True)
class InputAttrs(Attrs):
    """A value from outside. `key` names it uniquely in its graph (a TensorFlow tensor name)."""

    key: str
    type: TensorType


@dataclass(frozen=True)
class VariableAttrs(Attrs):
    """The value a resource variable has when the region starts. `handle` names the resource."""

    handle: str
    type: TensorType


@dataclass(frozen=True)
class AssignAttrs(Attrs):
    """The operand becomes the value of the resource variable `handle`."""

    handle: str


@dataclass(frozen=True, eq=False)
class ConstantAttrs(Attrs):
    """A constant tensor (C order)."""

    value: NDArray[np.generic]

    def _key(self) -> tuple[object, ...]:
        return self.value.dtype.name, self.value.shape, self.value.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantAttrs) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True)
class ExtentAttrs(Attrs):
    """A scalar holding the product of `shape`: a size that run-time shapes decide."""

    shape: Shape
    dtype: DType


@dataclass(frozen=True)
class CastAttrs(Attrs):
    dtype: DType


@dataclass(frozen=True)
class ShapeAttrs(Attrs):
    """Target shape of reshape and broadcast; reshape may leave one symbol to be inferred."""

    shape: Shape


@dataclass(frozen=True)
class TransposeAttrs(Attrs):
    """Output axis i is input axis perm[i]."""

    perm: tuple[int, ...]


@dataclass(frozen=True)
class SliceAttrs(Attrs):
    """Output element i of an axis is input element begin + i * stride; strides may be negative."""

    begin: tuple[int, ...]
    strides: tuple[int, ...]
    sizes: Shape


@dataclass(frozen=True)
class PadAttrs(Attrs):
    """Elements added before and after each axis; the second operand is the scalar written there."""

    low: tuple[int, ...]
    high: tuple[int, ...]


@dataclass(frozen=True)
class WindowsAttrs(Attrs):
    """Windows of images [n, h, w, c]: [n, p, q, r, s, c] has what p q windows of r s elements see.

    Attributes:
        counts, extents: windows along height and width, and elements of each.
        strides, dilations: elements from one window to the next, and between neighbours of a window.
    """

    counts: tuple[int, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]


@dataclass(frozen=True)
class AxisAttrs(Attrs):
    """Axis of concat."""

    axis: int


@dataclass(frozen=True)
class IotaAttrs(Attrs):
    """Element = its index along `axis`; with axis -1 its position among all, in C order."""

    shape: Shape
    axis: int
    dtype: DType


@dataclass(frozen=True)
class ReduceAttrs(Attrs):
    """Axes that disappear (sorted, not negative)."""

    axes: tuple[int, ...]


@dataclass(frozen=True)
class ArgReduceAttrs(Attrs):
    """Axis that disappears; the result is an index of type `dtype`, the first of equals."""

    axis: int
    dtype: DType


@dataclass(frozen=True)
class DotAttrs(Attrs):
    """The attributes of a matmul.

    Attributes:
        transpose_a, transpose_b: an operand is stored with its last two axes exchanged.
        in_kernel: a kernel of ours multiplies, not a library.
        repeated: each iteration of a loop does, on a GPU.
    """

    transpose_a: bool = False
    transpose_b: bool = False
    in_kernel: bool = field(default=False, metadata=RARE)
    repeated: bool = field(default=False, metadata=RARE)


@dataclass(frozen=True)
class Float8DotAttrs(Attrs):
    """The attributes of a float8 matmul: the half type of its result, which is rounded once."""

    dtype: DType


@dataclass(frozen=True)
class ConvolutionAttrs(Attrs):
    """The attributes of a convolution of images of two or three axes, and of its gradients: depth, height, width.

    Attributes:
        strides, dilations: elements from one window to the next, and between neighbours of a window.
        padding: zeros on either side of the image.
        groups: into which channels and filters fall; each group's filters read its channels.
        size: of the gradient's result along these axes: of the image, or of the filters; empty: no gradient.
    """

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[int, ...]
    groups: int
    size: tuple[int, ...] = ()


@dataclass(frozen=True)
class AttentionAttrs(Attrs):
    """The attributes of an attention, softmax(scale q k^T) v, and of its gradients.

    Attributes:
        causal: query i sees keys 0 to i; the others weigh 0.
        rows_outside: the result is [batch, rows, heads, columns], not [batch, heads, rows, columns].
    """

    scale: float
    causal: bool
    rows_outside: bool = field(default=False, metadata=RARE)


@dataclass(frozen=True)
class ScanAttrs(Attrs):
    """Running sum, or product, along the last axis."""

    exclusive: bool
    reverse: bool


class Combine(Enum):
    """What becomes of an element when another is scattered to it."""

    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"
    SET = "set"


@dataclass(frozen=True)
class ScatterAttrs(Attrs):
    """The attributes of a scatter: rows are combined with rows of another tensor, one after the other.

    Attributes:
        shape: of the result.
        updates_first: whether a maximum is `update < element ? element : update`, not `element < update ? update :
            element`: what it is of NaN.
        row_axes: the number of a row counts those of this many axes, the first ones, in C order.
        in_place: whatever reads the old elements does so first, so that the result may lie there.
        rows_only: the result does lie there: who computes the updates may write them as its own results.
    """

    shape: Shape
    combine: Combine
    updates_first: bool = False
    row_axes: int = 1
    in_place: bool = False
    rows_only: bool = False

    @property
    def rows(self) -> Shape:
        """The result's shape with one axis for its rows. Several axes that are one have to be static."""
        if self.row_axes == 1:
            return self.shape
        return (math.prod(static_shape(self.shape[:self.row_axes])), *self.shape[self.row_axes:])


@dataclass(frozen=True)
class LoopAttrs(Attrs):
    """Result number `output` of a loop, of type `type`; `ir.bind` unrolls the loop.

    Attributes:
        loop: an ir.loops.Unrollable.
    """

    loop: Hashable
    output: int
    type: TensorType
