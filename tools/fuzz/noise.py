"""Noise of a few units in the last place, for finding out what rounding alone may change in a program's results."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import tensorflow as tf

_UNITS = 4


class Noise:
    """Wraps what steps give.

    Args:
        number: of the noise; 0 for none.
    """

    def __init__(self, number: int) -> None:
        self._number, self._steps = number, itertools.count()

    def __call__(self, values: Any, rounds: bool) -> Any:
        """The values, each float times 1 +- 4 units where `rounds`; their gradients always, since those are sums."""
        return tf.nest.map_structure(lambda x: self._one(x, rounds), values)

    def _one(self, x: Any, rounds: bool) -> Any:
        if isinstance(x, tf.Variable):
            x = tf.convert_to_tensor(x)
        if not self._number or not isinstance(x, tf.Tensor) or not x.dtype.is_floating:
            return x
        forward, backward = (tf.constant([self._number, next(self._steps)]) for _ in range(2))
        rounds = rounds or x.dtype in (tf.float16, tf.bfloat16)

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def noisy(y: Any) -> Any:
            return (y * _factor(y, forward) if rounds else tf.identity(y)), lambda d: d * _factor(d, backward)

        return noisy(x)


def _factor(x: Any, seed: Any) -> Any:
    unit = tf.constant(float(ml_dtypes.finfo(x.dtype.as_numpy_dtype).eps), tf.float64)
    return tf.cast(1 + unit * tf.random.stateless_uniform(tf.shape(x), seed, -_UNITS, _UNITS, tf.float64), x.dtype)
