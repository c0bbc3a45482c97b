"""Ops of two and three broadcast operands against TensorFlow's CPU kernels."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import check, trace
from tests.frontend.values import FLOATS, NUMBERS, normal, numpy_dtype, positive, special_pairs

RAW = tf.raw_ops
ARITHMETIC = ("Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference", "Less", "LessEqual", "Greater",
              "GreaterEqual", "Equal", "NotEqual")
FLOAT_ONLY = ("RealDiv", "Div", "DivNoNan", "MulNoNan", "FloorDiv", "FloorMod", "TruncateMod", "Xdivy", "Xlogy",
              "Xlog1py", "Pow")
BROADCASTS = (((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((2, 1, 3), (5, 1)), ((0, 3), (1, 3)), ((), ()))


@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic(op: str) -> None:
    for dtype in NUMBERS:
        if op == "Add" and dtype == "bfloat16":
            continue
        check(lambda x, y: getattr(RAW, op)(x=x, y=y), normal((3, 4), dtype), normal((3, 4), dtype, 1))
    for left, right in BROADCASTS:
        check(lambda x, y: getattr(RAW, op)(x=x, y=y), normal(left), normal(right, seed=1), graphs=False)
    check(lambda x, y: getattr(RAW, op)(x=x, y=y), *special_pairs(), graphs=False)


@pytest.mark.parametrize("op", FLOAT_ONLY)
def test_float_arithmetic(op: str) -> None:
    x, y = special_pairs()
    if op == "Pow":
        x = np.abs(x)
    if op not in ("FloorDiv", "FloorMod", "TruncateMod"):  # of infinities: NaN in Eigen's vector path alone
        check(lambda x, y: getattr(RAW, op)(x=x, y=y), x, y, graphs=False)
    for dtype in FLOATS:
        if op == "TruncateMod" and dtype not in ("float32", "float64"):  # no kernel
            continue
        check(lambda x, y: getattr(RAW, op)(x=x, y=y), positive((3, 4), dtype), positive((4,), dtype, 1))
    if op not in ("Pow", "Xlogy", "Xlog1py"):
        check(lambda x, y: getattr(RAW, op)(x=x, y=y), normal((3, 4)), normal((4,), seed=1))


@pytest.mark.parametrize("op", ["FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "Div", "Mod"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integer_division(op: str, dtype: str) -> None:
    for divisor in (3, -4):
        check(lambda x, d=divisor: getattr(RAW, op)(x=x, y=tf.constant(d, dtype)), normal((9,), dtype))
    check(lambda x, y: getattr(RAW, op)(x=x, y=tf.maximum(y, tf.constant(1, dtype))), normal((9,), dtype),
          normal((9,), dtype, 1))
    traced = trace(lambda x, y: getattr(RAW, op)(x=x, y=y), tf.TensorSpec([3], dtype), tf.TensorSpec([3], dtype))
    assert "must raise" in next(iter(traced.opaque().values()))


def test_integer_power() -> None:
    for exponent in (0, 1, 2, 7):
        check(lambda x, e=exponent: tf.pow(x, e), normal((5,), "int32"))
    assert trace(lambda x, y: tf.pow(x, y), tf.TensorSpec([3], tf.int32), tf.TensorSpec([3], tf.int32)).opaque()


def test_logic_and_bits() -> None:
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    check(lambda a, b: (tf.logical_and(a, b), tf.logical_or(a, b), tf.math.logical_xor(a, b), tf.equal(a, b)), a, b)
    x, y = normal((9,), "int32"), normal((9,), "int32", 1)
    check(lambda x, y: (RAW.BitwiseAnd(x=x, y=y), RAW.BitwiseOr(x=x, y=y), RAW.BitwiseXor(x=x, y=y)), x, y)


def test_atan2() -> None:
    check(lambda x, y: tf.atan2(x, y), normal((9,)), normal((9,), seed=1))


def test_select() -> None:
    condition = np.array([[True], [False], [True]])
    x, y = normal((3, 4)), normal((4,), seed=1)
    check(lambda c, x, y: tf.where(c, x, y), condition, x, y)
    full = normal((3, 4), seed=2)
    check(lambda c, x, y: RAW.Select(condition=c, x=x, y=y), condition[:, 0], x, full)
    check(lambda c, x, y: RAW.Select(condition=c, x=x, y=y), np.array(True), x, full)
    check(lambda c, x, y: RAW.Select(condition=c, x=x, y=y), x > 0, x, full)


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (np.nan, 1.0), (-1.0, np.nan), (2.0, 1.0)])
def test_clip(bounds: tuple[float, float]) -> None:
    x = np.array([np.nan, 5, -5, 0.5, np.inf, -np.inf], np.float32)
    low, high = bounds
    check(lambda x: RAW.ClipByValue(t=x, clip_value_min=low, clip_value_max=high), x)
    check(lambda x, lo, hi: RAW.ClipByValue(t=x, clip_value_min=lo, clip_value_max=hi), x, np.full_like(x, low),
          np.full_like(x, high))


def test_sums_and_bias() -> None:
    xs = [normal((3, 4), seed=i) for i in range(4)]
    check(lambda *xs: tf.add_n(list(xs)), *xs)
    image = normal((2, 3, 5, 4))
    check(lambda x, b: tf.nn.bias_add(x, b), image, normal((4,)))
    check(lambda x, b: RAW.BiasAdd(value=x, bias=b, data_format="NCHW"), image, normal((3,)))
    check(lambda x: RAW.BiasAddGrad(out_backprop=x), image)
    check(lambda x: RAW.BiasAddGrad(out_backprop=x, data_format="NCHW"), image)


def test_incompatible_shapes_of_equal_stay() -> None:
    traced = trace(lambda x, y: RAW.Equal(x=x, y=y, incompatible_shape_error=False),
                   tf.TensorSpec([3]), tf.TensorSpec([4]))
    assert "do not broadcast" in next(iter(traced.opaque().values()))


def test_dtypes_outside_the_ir_stay() -> None:
    traced = trace(lambda x: x + x, tf.TensorSpec([3], tf.uint8))
    assert traced.opaque() == {"add (AddV2)": "dtype uint8 is not in the IR",
                               "Identity (Identity)": "dtype uint8 is not in the IR"}
    assert numpy_dtype("bfloat16")
