"""Grids of the values that kernels get wrong."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tf_stitch.ir.dtypes import DType

Array = NDArray[Any]

_POINTS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 0.1, 0.3, 0.7, 0.9, 1.1, 4.0, 5.25, 6.0, 7.25, 9.0, 10.0, 20.0, 30.0,
           50.0, 88.0, 89.0, 100.0, 104.0, 700.0, 1e3, 2049.0, 1e4)


def floats(dtype: DType) -> Array:
    """Both zeros, subnormal, smallest and largest numbers, halves between integers, infinities and NaN."""
    info = ml_dtypes.finfo(dtype.numpy)
    tiny, largest, eps = (float(v) for v in (info.smallest_normal, info.max, info.eps))
    points = [*_POINTS, tiny, tiny / 4, float(info.smallest_subnormal), eps, 1 + eps, 1 - eps / 2, largest, largest / 2,
              1 / eps, 2 / eps + 1, np.pi / 2, np.inf]
    with np.errstate(all="ignore"):
        return np.array([*points, *(-p for p in points), np.nan], np.float64).astype(dtype.numpy)


def few_floats(dtype: DType) -> Array:
    """Those of which every pair is tried."""
    info = ml_dtypes.finfo(dtype.numpy)
    points = [0.0, 0.3, 0.5, 1.0, 1.5, 2.0, 2.5, 7.25, 100.0, 2049.0, float(info.smallest_normal),
              float(info.smallest_subnormal), float(info.max), np.inf]
    with np.errstate(all="ignore"):
        return np.array([*points, *(-p for p in points), np.nan], np.float64).astype(dtype.numpy)


def integers(dtype: DType) -> Array:
    if dtype is DType.U64:
        return np.array([0, 1, 2, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1], np.uint64)
    info = np.iinfo(dtype.numpy)
    return np.array([0, 1, -1, 2, -2, 3, -3, 7, -7, 100, -100, 2048, 2049, 46341, -46341, (1 << 24) + 1, -(1 << 24) - 1,
                     info.max, info.max - 1, info.max // 2 + 1, info.min, info.min + 1], np.int64).astype(dtype.numpy)


def grid(dtype: DType) -> Array:
    if dtype is DType.BOOL:
        return np.array([True, False, False, True, True])
    return floats(dtype) if dtype.is_float else integers(dtype)


def pairs(dtype: DType) -> tuple[Array, Array]:
    """Every pair of values."""
    few = few_floats(dtype) if dtype.is_float else grid(dtype)
    x, y = np.meshgrid(few, few)
    return x.reshape(-1), y.reshape(-1)
