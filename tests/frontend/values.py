"""Arrays for the frontend tests: ordinary values, and those that kernels get wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

FLOATS = ("float32", "float64", "float16", "bfloat16")
NUMBERS = (*FLOATS, "int32", "int64")
SHAPES = ((), (5,), (3, 4), (2, 3, 4), (0, 3))
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 6.0, 7.25, 1e4, -1e4)


def numpy_dtype(name: str) -> Any:
    return tf.dtypes.as_dtype(name).as_numpy_dtype


def normal(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Any:
    """Normal values, rounded for integers."""
    values = np.random.default_rng(seed).standard_normal(shape) * (1 if dtype in FLOATS else 20)
    return np.asarray(values).astype(numpy_dtype(dtype))


def positive(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Any:
    return (np.abs(normal(shape, "float64", seed)) + 0.25).astype(numpy_dtype(dtype))


def special(dtype: str = "float32") -> Any:
    return np.array(SPECIAL).astype(numpy_dtype(dtype))


def special_pairs(dtype: str = "float32") -> tuple[Any, Any]:
    """Every pair of special values."""
    x, y = np.meshgrid(special(dtype), special(dtype))
    return x, y
