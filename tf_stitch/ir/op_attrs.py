"""Typed attributes of tensor IR ops; frozen, so that nodes can be compared and hashed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.types import Shape, TensorType

if TYPE_CHECKING:
    from tf_stitch.ir.graph import TensorGraph


@dataclass(frozen=True)
class Attrs:
    """No attributes; base of all."""


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
    """Whether an operand is stored with its last two axes exchanged."""

    transpose_a: bool = False
    transpose_b: bool = False


@dataclass(frozen=True)
class CumsumAttrs(Attrs):
    """Running sum along the last axis."""

    exclusive: bool
    reverse: bool


class Unrollable(Protocol):
    """A loop whose length is a size. Loops that compute the same are equal, hash alike, and have one str."""

    def unrolled(self, types: Sequence[TensorType]) -> TensorGraph:
        """Its graph, without loops, for operands of these static types: input k has the key "i<k>", result j "o<j>".

        Raises:
            BindError: it cannot be unrolled for these sizes.
        """


@dataclass(frozen=True)
class LoopAttrs(Attrs):
    """Result number `output` of a loop, of type `type`; `ir.bind` writes the loop out."""

    loop: Unrollable
    output: int
    type: TensorType
