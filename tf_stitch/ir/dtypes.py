"""Element types of the tensor IR."""

from __future__ import annotations

from enum import Enum
from functools import cached_property

import ml_dtypes
import numpy as np


class DType(Enum):
    """An element type; the value is its name in text, the NumPy names being the same.

    U64 is what TensorFlow keeps keys and counters of random numbers in: it is moved, and cast to and from integers. The
    two types of eight bits are moved, and cast from floats and to all types but U64.
    """

    F16 = "float16"
    BF16 = "bfloat16"
    F32 = "float32"
    F64 = "float64"
    I32 = "int32"
    I64 = "int64"
    U64 = "uint64"
    BOOL = "bool"
    F8_E4M3FN = "float8_e4m3fn"
    F8_E5M2 = "float8_e5m2"

    __hash__ = object.__hash__  # Enum's own is Python

    @cached_property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype (of ml_dtypes where NumPy has none)."""
        return _OTHERS.get(self.value) or np.dtype(self.value)

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """A real number to compute with, which no float8 is."""
        return self in (DType.F16, DType.BF16, DType.F32, DType.F64)

    @property
    def is_integer(self) -> bool:
        """A number to count or compute with, which U64 is not."""
        return self in (DType.I32, DType.I64)

    @property
    def is_float8(self) -> bool:
        return self in (DType.F8_E4M3FN, DType.F8_E5M2)

    @property
    def is_narrow(self) -> bool:
        """Bits in memory, and a wider type where it is computed with."""
        return self.compute is not self

    @property
    def is_real(self) -> bool:
        """A real number, whether or not it is computed with."""
        return self.is_float or self.is_float8

    @property
    def is_computed_with(self) -> bool:
        """Whether there is arithmetic of it; the others are moved and cast."""
        return self is not DType.U64 and not self.is_float8

    @cached_property
    def compute(self) -> DType:
        """The type arithmetic is done in: half types compute in float32 and round when stored. A float8 is a float32
        between its casts."""
        return DType.F32 if self in (DType.F16, DType.BF16) or self.is_float8 else self

    @staticmethod
    def of(dtype: np.dtype[np.generic]) -> DType:
        """The DType of a NumPy dtype; KeyError if there is none."""
        return _OF_NAME[dtype.name]


_OTHERS: dict[str, np.dtype[np.generic]] = {
    t.name: t for t in map(np.dtype, (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2))}
_OF_NAME = {d.value: d for d in DType}
