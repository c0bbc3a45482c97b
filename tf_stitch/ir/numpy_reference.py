"""NumPy meaning of the tensor IR ops that NumPy lacks or spells otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tf_stitch.errors import VerifyError
from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.types import static_shape

Array: TypeAlias = NDArray[Any]

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def no_value(attrs: oa.Attrs) -> Array:
    raise VerifyError(f"{attrs} has no value of its own: the caller binds it")


def extent(attrs: oa.ExtentAttrs) -> Array:
    return np.asarray(math.prod(static_shape(attrs.shape)), attrs.dtype.numpy)


def iota(attrs: oa.IotaAttrs) -> Array:
    shape = static_shape(attrs.shape)
    if attrs.axis < 0:
        return np.arange(math.prod(shape), dtype=attrs.dtype.numpy).reshape(shape)
    line = np.arange(shape[attrs.axis], dtype=attrs.dtype.numpy)
    return np.broadcast_to(line.reshape([-1 if i == attrs.axis else 1 for i in range(len(shape))]), shape)


def rsqrt(x: Array) -> Array:
    return np.reciprocal(np.sqrt(x))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), with no overflow."""
    e = np.exp(-np.abs(x))
    return np.where(np.isnan(x), x, np.where(x >= 0, 1 / (1 + e), e / (1 + e))).astype(x.dtype)


def erf(x: Array) -> Array:
    return np.asarray(_erf(x)).astype(x.dtype)


def erfc(x: Array) -> Array:
    return np.asarray(_erfc(x)).astype(x.dtype)


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def lgamma(x: Array) -> Array:
    return np.asarray(np.vectorize(_lgamma, otypes=[np.float64])(x)).astype(x.dtype)


def cast(attrs: oa.CastAttrs, x: Array) -> Array:
    """Conversion as TensorFlow's CPU kernel does it: truncation towards zero, x86's integer indefinite
    value (the smallest integer) for what does not fit. A float64 is rounded once on its way to a float8."""
    target: np.dtype[Any] = attrs.dtype.numpy
    if np.issubdtype(target, np.integer) and not (np.issubdtype(x.dtype, np.integer) or x.dtype == np.bool_):
        wide = x.astype(np.float64)
        info = np.iinfo(target)
        fits = (wide >= float(info.min)) & (wide < -float(info.min))
        return np.where(fits, np.where(fits, wide, 0).astype(target), info.min).astype(target)
    if attrs.dtype.is_float8 and x.dtype == np.float64:
        x = _to_odd(x)  # ml_dtypes' own way is by float32, too, and rounds twice
    return x.astype(target)


def _to_odd(x: Array) -> Array:
    """float64 as float32: of the two neighbours of what is no float32, the one whose last bit is 1. A number of fewer
    bits that this is rounded to is what the float64 would have been rounded to."""
    near = x.astype(np.float32)
    back, bits = near.astype(np.float64), near.view(np.int32).copy()
    inexact = (back != x) & (x == x)
    bits -= inexact & (np.abs(back) > np.abs(x))
    return np.asarray((bits | inexact).view(np.float32))


def bits(x: Array) -> Array:
    """The 32 bits of a float32 as an int32."""
    return np.asarray(x, np.float32).view(np.int32)


def divide(x: Array, y: Array) -> Array:
    """True division of floats; integers truncate towards zero."""
    if np.issubdtype(np.asarray(x).dtype, np.integer):
        inexact = np.mod(x, y) != 0
        return np.asarray(np.floor_divide(x, y) + (inexact & ((x < 0) != (y < 0)))).astype(x.dtype)
    return np.divide(x, y)


def floor_divide(x: Array, y: Array) -> Array:
    """floor(x / y), rounded once for the quotient as TensorFlow does for floats."""
    if np.issubdtype(x.dtype, np.integer):
        return np.floor_divide(x, y)
    return np.floor(np.divide(x, y))


def floor_mod(x: Array, y: Array) -> Array:
    """Remainder with the sign of y (TensorFlow's google_floor_fmod for floats)."""
    if np.issubdtype(x.dtype, np.integer):
        return np.mod(x, y)
    remainder = np.fmod(x, y)
    return np.where((remainder != 0) & ((x < 0) != (y < 0)), remainder + y, remainder).astype(x.dtype)


def slice_(attrs: oa.SliceAttrs, x: Array) -> Array:
    index = [begin + stride * np.arange(size) for begin, stride, size
             in zip(attrs.begin, attrs.strides, static_shape(attrs.sizes), strict=True)]
    return x[np.ix_(*index)] if index else x


def pad(attrs: oa.PadAttrs, x: Array, value: Array) -> Array:
    out = np.full([d + lo + hi for d, lo, hi in zip(x.shape, attrs.low, attrs.high, strict=True)], value, x.dtype)
    out[tuple(slice(lo, lo + d) for d, lo in zip(x.shape, attrs.low, strict=True))] = x
    return out


def windows(attrs: oa.WindowsAttrs, x: Array) -> Array:
    h, w = (np.arange(count)[:, None] * stride + np.arange(extent) * dilation for count, extent, stride, dilation
            in zip(attrs.counts, attrs.extents, attrs.strides, attrs.dilations, strict=True))
    return x[:, h[:, None, :, None], w[None, :, None, :]]


def gather(attrs: oa.Attrs, params: Array, indices: Array) -> Array:
    """params[indices]; an index outside is an error, as in TensorFlow's CPU kernel."""
    if indices.size and (indices.min() < 0 or indices.max() >= params.shape[0]):
        raise IndexError(f"indices outside [0, {params.shape[0]})")
    return params[indices]


def scatter(attrs: oa.ScatterAttrs, before: Array, rows: Array, updates: Array) -> Array:
    """Updates go to their rows in order; those of negative rows nowhere. A row behind the last is an error, as in
    TensorFlow's CPU kernels."""
    out = np.array(np.broadcast_to(before, static_shape(attrs.shape))).reshape(static_shape(attrs.rows))
    if rows.size and rows.max() >= out.shape[0]:
        raise IndexError(f"rows outside [0, {out.shape[0]})")
    for row, update in zip(rows, updates, strict=True):
        if row >= 0:
            out[row] = combined(attrs, out[row], update)
    return out.reshape(static_shape(attrs.shape))


def combined(attrs: oa.ScatterAttrs, element: Array, update: Array) -> Array:
    """An element after an update."""
    if attrs.combine is oa.Combine.SET:
        return update
    if attrs.combine in (oa.Combine.SUM, oa.Combine.PROD):
        return np.asarray((np.add if attrs.combine is oa.Combine.SUM else np.multiply)(element, update))
    a, b = (update, element) if attrs.updates_first else (element, update)
    return np.where(a < b if attrs.combine is oa.Combine.MAX else b < a, b, a)


def reduce(ufunc: np.ufunc) -> Callable[[oa.ReduceAttrs, Array], Array]:
    """Reduction by a ufunc over attrs.axes; an empty maximum is the type's lowest value."""

    def run(attrs: oa.ReduceAttrs, x: Array) -> Array:
        if ufunc in (np.maximum, np.minimum) and x.size == 0:
            return np.asarray(ufunc.reduce(x, axis=attrs.axes, initial=lowest(x.dtype, ufunc is np.maximum)))
        return np.asarray(ufunc.reduce(x, axis=attrs.axes, dtype=x.dtype)).astype(x.dtype)

    return run


def total(attrs: oa.ReduceAttrs, x: Array) -> Array:
    """Sum over attrs.axes. NumPy sums in pairs along neighbours in memory only; along others one after the other."""
    kept = [axis for axis in range(x.ndim) if axis not in attrs.axes]
    rows = np.ascontiguousarray(x.transpose(*kept, *attrs.axes))
    shape = (*(x.shape[axis] for axis in kept), math.prod(x.shape[axis] for axis in attrs.axes))
    return np.asarray(np.add.reduce(rows.reshape(shape), axis=-1, dtype=x.dtype)).astype(x.dtype)


def lowest(dtype: np.dtype[Any], smallest: bool) -> Any:
    """The value that a maximum (smallest) or a minimum starts from."""
    if np.issubdtype(dtype, np.integer):
        return np.iinfo(dtype).min if smallest else np.iinfo(dtype).max
    return -np.inf if smallest else np.inf


def arg_reduce(better: np.ufunc) -> Callable[[oa.ArgReduceAttrs, Array], Array]:
    """First index of the best element. NaN never wins, in front neither; an axis of NaN alone gives 0: Eigen's
    ArgMax starts from index 0 and the type's lowest value."""

    def run(attrs: oa.ArgReduceAttrs, x: Array) -> Array:
        rest = x.shape[:attrs.axis] + x.shape[attrs.axis + 1:]
        best = np.full(rest, lowest(x.dtype, better is np.greater), x.dtype)
        index = np.zeros(rest, attrs.dtype.numpy)
        for i in range(x.shape[attrs.axis]):
            candidate = np.take(x, i, attrs.axis)
            wins = better(candidate, best)
            index = np.where(wins, i, index)
            best = np.where(wins, candidate, best)
        return index.astype(attrs.dtype.numpy)

    return run


def dot(attrs: oa.DotAttrs, x: Array, y: Array) -> Array:
    """Matmul over the last two axes."""
    left = np.swapaxes(x, -1, -2) if attrs.transpose_a else x
    right = np.swapaxes(y, -1, -2) if attrs.transpose_b else y
    return np.asarray(np.matmul(left, right))


def float8_dot(attrs: oa.Float8DotAttrs, x: Array, y: Array, x_scale: Array, y_scale: Array) -> Array:
    """Matmul of rows of terms, scaled, then rounded."""
    matmul = np.matmul(x.astype(np.float32), y.astype(np.float32).T)
    return np.asarray(matmul * (x_scale * y_scale).astype(np.float32)).astype(attrs.dtype.numpy)


def cumsum(attrs: oa.ScanAttrs, x: Array) -> Array:
    # It starts from 0, so that no sum is -0.
    return _scan(attrs, x, lambda y: np.cumsum(y, axis=-1, dtype=x.dtype) + x.dtype.type(0), 0)


def cumprod(attrs: oa.ScanAttrs, x: Array) -> Array:
    return _scan(attrs, x, lambda y: np.cumprod(y, axis=-1, dtype=x.dtype), 1)


def _scan(attrs: oa.ScanAttrs, x: Array, run: Callable[[Array], Array], first: int) -> Array:
    total = run(x[..., ::-1] if attrs.reverse else x)
    if attrs.exclusive:
        total = np.concatenate([np.full_like(total[..., :1], first), total[..., :-1]], axis=-1)
    return np.asarray(total[..., ::-1] if attrs.reverse else total)
