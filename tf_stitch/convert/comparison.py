"""Compares the outputs of two forms of a model, by the types of their elements."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

BOUNDS: dict[str, float] = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-4, "complex64": 1e-4, "float16": 2e-2,
                            "bfloat16": 6e-2}
"""Largest difference, relative to the value's magnitude plus its tensor's mean one. Other types are equal."""
TF32_BOUND = 2e-3
"""Of float32 where matmuls may be in TF32, whose operands have 11 bits: which of them are is a library's choice."""


def bounds(tf32: bool) -> dict[str, float]:
    """BOUNDS where GPUs may, or may not, compute in TF32."""
    return BOUNDS | ({"float32": TF32_BOUND} if tf32 else {})


@dataclass(frozen=True)
class Difference:
    """The difference of one output.

    Attributes:
        worst: largest difference, relative as BOUNDS says; infinite where shapes, types or what is not finite differ.
        bound: that it has to keep to.
    """

    output: str
    dtype: str
    worst: float
    bound: float

    @property
    def passes(self) -> bool:
        return self.worst <= self.bound

    def as_json(self) -> dict[str, Any]:
        """What is infinite is None: JSON has no such number."""
        return asdict(self) | ({} if isfinite(self.worst) else {"worst": None})


def compare(name: str, expected: NDArray[Any], found: NDArray[Any], tolerance: float, tf32: bool = False
            ) -> Difference:
    """
    Args:
        tolerance: by which bounds are multiplied.
        tf32: whether either may have been computed in TF32.
    """
    kind = str(expected.dtype)
    bound = bounds(tf32).get(kind, 0.0) * tolerance
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return Difference(name, kind, float("inf"), bound)
    if kind not in BOUNDS:
        same = bool(np.all(expected == found))
        return Difference(name, kind, 0.0 if same else float("inf"), bound)
    return Difference(name, kind, _worst(expected, found), bound)


def _worst(expected: NDArray[Any], found: NDArray[Any]) -> float:
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    one, other = expected.astype(wide), found.astype(wide)
    finite = np.isfinite(one)
    odd = ~finite
    if not (np.array_equal(finite, np.isfinite(other)) and
            np.array_equal(one[odd], other[odd], equal_nan=True)):
        return float("inf")
    if not finite.any():
        return 0.0
    one, other = one[finite], other[finite]
    scale = np.abs(one) + np.abs(one).mean() + _smallest(expected.dtype)
    return float((np.abs(one - other) / scale).max())


def _smallest(dtype: np.dtype[Any]) -> float:
    """So that tensors of zeros have a scale."""
    if dtype.kind == "c":
        dtype = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
    return 1e-19 if dtype.itemsize < 8 else 1e-150  # the root of about the smallest normal number
