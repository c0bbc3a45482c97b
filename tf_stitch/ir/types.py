"""Tensor types: an element type and dimensions that may be symbols."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from tf_stitch.errors import BindError, TypeRuleError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.symbolic_dims import typical


@dataclass(frozen=True)
class Symbol:
    """A dimension known only at run time; equal names are equal sizes."""

    name: str

    def __str__(self) -> str:
        return self.name


Dim: TypeAlias = int | Symbol
Shape: TypeAlias = tuple[Dim, ...]


@dataclass(frozen=True)
class TensorType:
    """dtype and shape; rank is always known."""

    dtype: DType
    shape: Shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return all(isinstance(d, int) for d in self.shape)

    @cached_property
    def dims(self) -> tuple[int, ...]:
        """The shape as integers; TypeRuleError if a symbol is left."""
        return static_shape(self.shape)

    @cached_property
    def numel(self) -> int:
        """Number of elements of a static type."""
        return math.prod(self.dims)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of a static type."""
        return self.numel * self.dtype.size

    @cached_property
    def typical_bytes(self) -> int:
        """Bytes of a static type, for decisions that do not depend on sizes that change (see symbolic_dims.typical)."""
        return typical(self.nbytes)

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:  # structural keys ask for it again and again
        return f"{self.dtype.value}[{','.join(map(str, self.shape))}]"


def static_shape(shape: Shape) -> tuple[int, ...]:
    """`shape` as integers; TypeRuleError if a symbol is left."""
    if not all(isinstance(d, int) for d in shape):
        raise TypeRuleError(f"shape [{','.join(map(str, shape))}] is not static here")
    return tuple(d for d in shape if isinstance(d, int))


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """NumPy broadcasting of shapes. Against a number above 1 a symbol is that number or 1: the number wins.

    Raises:
        TypeRuleError: two numbers that do not broadcast, or two symbols: either may be 1, so the result has no name.
    """
    rank = max(map(len, shapes))
    out: list[Dim] = []
    for axis in range(-rank, 0):
        dim: Dim = 1
        for shape in shapes:
            if len(shape) < -axis or shape[axis] == 1:
                continue
            other = shape[axis]
            if dim == 1 or (isinstance(dim, Symbol) and isinstance(other, int)):
                dim = other
            elif isinstance(dim, int) and isinstance(other, int) and dim != other:
                raise TypeRuleError(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
            elif isinstance(dim, Symbol) and isinstance(other, Symbol) and dim != other:
                raise TypeRuleError(f"sizes {dim} and {other} may differ at run time")
        out.append(dim)
    return tuple(out)


def substitute(shape: Shape, env: Mapping[str, int]) -> Shape:
    """`shape` with the symbols of `env` replaced by their sizes."""
    return tuple(env.get(d.name, d) if isinstance(d, Symbol) else d for d in shape)


def unify(shape: Shape, actual: Sequence[int], env: dict[str, int]) -> None:
    """Binds the symbols of `shape` to the sizes in `actual`, into `env`.

    Raises:
        BindError: the rank, a number or an already bound symbol differs.
    """
    if len(shape) != len(actual):
        raise BindError(f"rank {len(actual)} where the rewrite saw {len(shape)}")
    for dim, size in zip(shape, actual, strict=True):
        known = env.setdefault(dim.name, size) if isinstance(dim, Symbol) else dim
        if known != size:
            raise BindError(f"dimension {dim} is {size} at run time where {known} was expected")
