"""Whether a result is TensorFlow's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tests.differential.every_op.case import Array

Mask = NDArray[np.bool_]
FLUSHED = 4
"""Smallest normal numbers that results may be apart: what is flushed on the way may be multiplied later."""


def agree(got: Array, want: Array, ulp: float, scale: float, zeros: bool = True) -> Mask:
    """Elementwise: both NaN, the same number, or no further apart than allowed.

    Args:
        ulp: units in the last place of want, or of `scale` if that is larger.
        zeros: zeros of two signs are two numbers.
    """
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind in "biu":
        return np.asarray(got == want)
    info = ml_dtypes.finfo(want.dtype)
    smallest = float(info.smallest_normal)
    got, want = flushed(got), flushed(want)
    g, w = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (g == w) & ((g != 0) | (np.signbit(g) == np.signbit(w)) | (not zeros)) | np.isnan(g) & np.isnan(w)
        unit = np.exp2(np.floor(np.log2(np.maximum(np.maximum(np.abs(w), smallest), scale)))) * float(info.eps)
        allowed = np.maximum(ulp * unit, FLUSHED * smallest)
        near = (g != w) & np.isfinite(g) & np.isfinite(w) & (np.abs(g - w) <= allowed)
    return np.asarray(same | near)


def flushed(x: Array) -> Array:
    """Subnormal numbers as zeros of their sign: TensorFlow's threads flush what they compute with, and not what they
    merely move or choose. Those of half precision are none where one computes in float32."""
    if x.dtype.kind in "biu" or x.dtype == np.float16:
        return x
    with np.errstate(all="ignore"):
        small = np.abs(x) < ml_dtypes.finfo(x.dtype).smallest_normal
        return np.where(small, np.copysign(x.dtype.type(0), x), x).astype(x.dtype)


def tiny(inputs: Iterable[Array], shape: tuple[int, ...]) -> Mask:
    """Where an input is not zero, and as small as the smallest normal number."""
    found = np.zeros(shape, np.bool_)
    for x in inputs:
        if x.dtype.kind in "biu":
            continue
        with np.errstate(all="ignore"):
            found |= np.broadcast_to((x != 0) & (np.abs(x) <= ml_dtypes.finfo(x.dtype).smallest_normal), shape)
    return found


def first_bad(good: Mask, got: Array, want: Array, inputs: Sequence[Array]) -> str:
    """Elements that differ, with what they are of where inputs have the result's shape."""
    lines = [f"{int((~good).sum())} of {good.size} elements differ"]
    for at in map(tuple, np.argwhere(~good)[:4]):
        operands = ", ".join(str(x[at]) for x in inputs if x.shape == want.shape)
        lines.append(f"  {list(map(int, at))} of ({operands}): {got[at]} where TensorFlow has {want[at]}")
    return "\n".join(lines)
