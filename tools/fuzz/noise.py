"""Noise of a few units in the last place, for finding out what rounding alone may change in a program's results."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.framework import op_def_library

_UNITS = 4
_ROUND = frozenset({
    "Exp", "Expm1", "Log", "Log1p", "Tanh", "Sigmoid", "Erf", "Erfc", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan",
    "Atan2", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Softplus", "Softsign", "Elu", "Selu", "Digamma", "Lgamma",
    "Rsqrt", "Sqrt", "Reciprocal", "Pow", "Xlogy", "Xlog1py", "Xdivy", "RealDiv", "DivNoNan", "TanhGrad",
    "SigmoidGrad", "SoftplusGrad", "RsqrtGrad", "SqrtGrad", "EluGrad", "SeluGrad", "ReciprocalGrad", "SoftsignGrad",
    "Sum", "Mean", "Prod", "AddN", "Cumsum", "Cumprod", "Softmax", "LogSoftmax", "SoftmaxCrossEntropyWithLogits",
    "SparseSoftmaxCrossEntropyWithLogits", "L2Loss", "BiasAddGrad", "MatMul", "BatchMatMulV2", "BatchMatMulV3",
    "Einsum", "FusedBatchNormV3", "FusedBatchNormGradV3", "AvgPool", "Conv2D", "SegmentSum", "SegmentMean",
    "UnsortedSegmentSum",
})
"""Ops that two right implementations round differently."""
_NORMS = frozenset({"FusedBatchNormV3", "FusedBatchNormGradV3"})
_SUMS = _NORMS | {"Sum", "Mean", "L2Loss", "BiasAddGrad"}
_TERMS = 64
"""Numbers of one sign that are added one after the other, as TensorFlow's batch norm and kernels of ours do, are off by
up to an eighth as many units as there are numbers; `verdicts` allows sixteen times what noise does."""


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


def _units(op: Any, y: Any) -> Any:
    """What an op's result may be off by."""
    if op.type not in _SUMS:
        return _UNITS
    x = op.inputs[0]
    sums = tf.shape(x)[-1] if op.type in _NORMS else tf.size(y)
    return tf.maximum(tf.cast(tf.size(x) / tf.maximum(sums, 1) / _TERMS, tf.float64), _UNITS)


def _factor(x: Any, seed: Any, units: Any = _UNITS) -> Any:
    unit = tf.constant(float(ml_dtypes.finfo(x.dtype.as_numpy_dtype).eps), tf.float64) * units
    return tf.cast(1 + unit * tf.random.stateless_uniform(tf.shape(x), seed, -1, 1, tf.float64), x.dtype)


@contextlib.contextmanager
def noise_in_ops(number: int) -> Iterator[None]:
    """What is traced meanwhile has noise in every op that rounds: also where one call, such as a gelu, makes several.

    Args:
        number: of the noise.
    """
    apply, places, inside = op_def_library._apply_op_helper, itertools.count(), False

    def noisy(y: Any, op: Any) -> Any:
        nonlocal inside
        if inside or not y.dtype.is_floating:
            return y
        inside = True
        try:
            with record.stop_recording():
                units = _units(op, y)
                return y * _factor(y, tf.constant([number, next(places)]), units)
        finally:
            inside = False

    def apply_op(op_type_name: str, *given: Any, **named: Any) -> Any:
        structure, stateful, op, outputs = apply(op_type_name, *given, **named)
        return structure, stateful, op, [noisy(y, op) for y in outputs] if op_type_name in _ROUND else outputs

    op_def_library._apply_op_helper = apply_op
    try:
        yield
    finally:
        op_def_library._apply_op_helper = apply
