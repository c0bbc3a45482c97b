"""Shapes, movement and indexing against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.frontend.check import check, trace
from tests.frontend.values import NUMBERS, normal

RAW = tf.raw_ops
X = normal((2, 3, 4))

CASES = {
    "reshape": lambda x: tf.reshape(x, [4, -1]),
    "reshape_scalar": lambda x: tf.reshape(x[:1, :1, :1], []),
    "expand_squeeze": lambda x: tf.squeeze(tf.expand_dims(tf.expand_dims(x, -1), 0)),
    "squeeze_axis": lambda x: tf.squeeze(tf.expand_dims(x, 1), [1]),
    "transpose": lambda x: tf.transpose(x, [2, 0, 1]),
    "transpose_all": lambda x: tf.transpose(x),
    "conjugate": lambda x: RAW.ConjugateTranspose(x=x, perm=[1, 0, 2]),
    "concat": lambda x: tf.concat([x, x + 1, x[:, :, :2]], -1),
    "concat_v1": lambda x: RAW.Concat(concat_dim=1, values=[x, x]),
    "stack": lambda x: tf.stack([x, x * 2], 1),
    "unstack": lambda x: tf.unstack(x, axis=1),
    "split": lambda x: tf.split(x, 2, -1),
    "split_sizes": lambda x: tf.split(x, [1, -1], 1),
    "split_unequal": lambda x: tf.split(x, [1, 2, 1], 2),
    "pad": lambda x: tf.pad(x, [[0, 1], [2, 0], [1, 1]]),
    "pad_value": lambda x: tf.pad(x, [[0, 1], [2, 0], [1, 1]], constant_values=7),
    "tile": lambda x: tf.tile(x, [2, 1, 3]),
    "tile_one": lambda x: tf.tile(x[:, :1], [1, 5, 2]),
    "broadcast_to": lambda x: tf.broadcast_to(x[:, :1], [3, 2, 5, 4]),
    "fill": lambda x: tf.fill([2, 3], x[0, 0, 0]),
    "reverse": lambda x: tf.reverse(x, [0, -1]),
    "slice": lambda x: tf.slice(x, [0, 1, 1], [2, -1, 2]),
    "index": lambda x: x[1],
    "index_negative": lambda x: x[:, -1, 1:3],
    "index_ellipsis": lambda x: x[..., ::-2, tf.newaxis],
    "index_steps": lambda x: x[::-1, 2:0:-1, 3::-3],
    "index_mixed": lambda x: x[tf.newaxis, 0, ..., 1::2],
    "index_empty": lambda x: x[1:1],
    "ensure_shape": lambda x: tf.ensure_shape(x, [None, 3, 4]),
    "linspace": lambda x: RAW.LinSpace(start=0.1, stop=1.0, num=7) + x[0, 0, 0],
    "cumsum": lambda x: tf.cumsum(x, 1),
    "cumsum_last": lambda x: tf.cumsum(x, -1, exclusive=True, reverse=True),
    "cumsum_exclusive": lambda x: tf.cumsum(x, 0, exclusive=True),
    "cumsum_reverse": lambda x: tf.cumsum(x, 2, reverse=True),
}


@pytest.mark.parametrize("name", CASES)
def test_movement(name: str) -> None:
    check(CASES[name], X)


@pytest.mark.parametrize("name", ["reshape", "transpose", "concat", "pad", "tile", "index_steps", "reverse", "unstack"])
@pytest.mark.parametrize("dtype", [*NUMBERS, "bool"])
def test_movement_of_dtypes(name: str, dtype: str) -> None:
    x = X > 0 if dtype == "bool" else normal((2, 3, 4), dtype)
    if name == "concat":
        check(lambda x: tf.concat([x, x[:, :, :2]], -1), x)
    else:
        check(CASES[name], x)


def test_nothing_moves_as_well() -> None:
    empty = np.zeros((0, 3, 4), np.float32)
    for name in ("transpose", "stack", "pad", "index_ellipsis", "reverse", "cumsum", "split"):
        check(CASES[name], empty)


@pytest.mark.parametrize("index", [
    np.s_[1], np.s_[:, 1:], np.s_[::2, :, ::3], np.s_[..., tf.newaxis, 1], np.s_[0, 1, 2], np.s_[1:1],
    np.s_[:, ::2, 1:]])
def test_gradient_of_slice(index) -> None:
    def function(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.square(x[index]))
        return tape.gradient(y, x)

    check(function, X)


def test_gradient_with_negative_stride_stays() -> None:
    traced = trace(lambda dy: RAW.StridedSliceGrad(shape=[4], begin=[0], end=[0], strides=[-1], dy=dy, begin_mask=1,
                                                   end_mask=1), tf.TensorSpec([4]))
    assert "negative stride" in next(iter(traced.opaque().values()))


def test_gather() -> None:
    indices = np.array([[0, 2], [1, 1]], np.int32)
    check(lambda x, i: tf.gather(x, i), normal((3, 4)), indices)
    check(lambda x, i: tf.gather(x, i, axis=1), normal((2, 3, 4)), indices.astype(np.int64))
    check(lambda x, i: tf.gather(x, i, axis=-1), normal((2, 3, 4)), np.array(1))
    check(lambda x, i: RAW.Gather(params=x, indices=i), normal((3, 4)), indices)


@pytest.mark.parametrize("bounds", [(-1, 0), (0, -1), (1, 1), (-1, -1), (0, 0)])
def test_band(bounds: tuple[int, int]) -> None:
    check(lambda x: tf.linalg.band_part(x, *bounds), X)
    check(lambda x: tf.linalg.band_part(x, *bounds), X > 0)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis: int) -> None:
    indices = np.array([[0, 2, 5], [-1, 1, 1]], np.int32)
    check(lambda i: tf.one_hot(i, 3, axis=axis), indices)
    check(lambda i: tf.one_hot(i, 3, 2.0, -1.0, axis, tf.float64), indices.astype(np.int64))


def test_range_of_tensors() -> None:
    check(lambda x: tf.cast(tf.range(tf.shape(x)[1]), tf.float32) + x[0, 0, 0], X)
    check(lambda x: tf.range(2, 9, 3) + tf.cast(x[0, 0, 0], tf.int32), X)
    check(lambda x: tf.range(0.5, 3.0, 0.25) + x[0, 0, 0], X)


def test_large_constants() -> None:
    splat = np.full((300, 300), 2.5, np.float32)
    check(lambda x: x + tf.constant(splat), normal((300,)))
    large = normal((300, 300))
    traced = trace(lambda x: x + tf.constant(large), tf.TensorSpec([300]))
    assert list(traced.opaque().values()) == ["a constant of 90000 elements is read, not compiled in"]
