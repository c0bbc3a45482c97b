"""Element types of the tensor IR."""

from __future__ import annotations

from enum import Enum
from functools import cached_property

import ml_dtypes
import numpy as np


class DType(Enum):
    """An element type; the value is its name in text, the NumPy names being the same.

    U64 is what TensorFlow keeps keys and counters of random numbers in: it is moved, and cast to and from integers.
    """

    F16 = "float16"
    BF16 = "bfloat16"
    F32 = "float32"
    F64 = "float64"
    I32 = "int32"
    I64 = "int64"
    U64 = "uint64"
    BOOL = "bool"

    __hash__ = object.__hash__  # Enum's own is Python

    @cached_property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype (bfloat16 from ml_dtypes)."""
        return _BFLOAT16 if self is DType.BF16 else np.dtype(self.value)

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        return self in (DType.F16, DType.BF16, DType.F32, DType.F64)

    @property
    def is_integer(self) -> bool:
        """A number to count or compute with, which U64 is not."""
        return self in (DType.I32, DType.I64)

    @cached_property
    def compute(self) -> DType:
        """The type arithmetic is done in: half types compute in float32 and round when stored."""
        return DType.F32 if self in (DType.F16, DType.BF16) else self

    @staticmethod
    def of(dtype: np.dtype[np.generic]) -> DType:
        """The DType of a NumPy dtype; KeyError if there is none."""
        return _OF_NAME[dtype.name]


_BFLOAT16: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
_OF_NAME = {d.value: d for d in DType}
