"""Convolutions of the tensor IR as TensorFlow ops: a matmul for each place in the window, since TensorFlow's own
kernels for CPUs have no gradients with groups or dilations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tf_stitch.frontend.tensorflow.dtypes import to_enum
from tf_stitch.ir.convolutions import sizes_of
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConvolutionAttrs

_raw = tf.raw_ops


def convolution(node: Node, image: Any, filters: Any) -> Any:
    one, z = _Convolution(node), sizes_of(node)
    image, filters = one.padded(one.wide(image)), one.filters(one.wide(filters))
    places = (tf.einsum("npqgc,gkc->npqgk", one.seen(image, i, j), filters[:, :, i, j]) for i, j in one.places())
    return one.narrow(_total(places), (z.n, z.p, z.q, z.k))


def input_grad(node: Node, grad: Any, filters: Any) -> Any:
    one, z = _Convolution(node), sizes_of(node)
    grad, filters = one.grouped(one.wide(grad)), one.filters(one.wide(filters))
    whole = _total(one.spread(tf.einsum("npqgk,gkc->npqgc", grad, filters[:, :, i, j]), i, j) for i, j in one.places())
    top, left = one.attrs.padding
    return one.narrow(whole[:, top:top + z.h, left:left + z.w], (z.n, z.h, z.w, z.c))


def filter_grad(node: Node, image: Any, grad: Any) -> Any:
    one, z = _Convolution(node), sizes_of(node)
    image, grad = one.padded(one.wide(image)), one.grouped(one.wide(grad))
    places = [tf.einsum("npqgk,npqgc->gkc", grad, one.seen(image, i, j)) for i, j in one.places()]
    return one.narrow(_raw.Pack(values=places, axis=2), (z.k, z.r, z.s, z.c // one.attrs.groups))


def _total(terms: Iterator[Any]) -> Any:
    total = next(terms)
    for term in terms:
        total = _raw.AddV2(x=total, y=term)
    return total


class _Convolution:
    """A convolution, or the one that a node is a gradient of, with groups as an axis before the last."""

    def __init__(self, node: Node) -> None:
        assert isinstance(node.attrs, ConvolutionAttrs)
        self.attrs, self._type, self._sizes = node.attrs, node.type, sizes_of(node)

    def wide(self, x: Any) -> Any:
        return _raw.Cast(x=x, DstT=tf.dtypes.as_dtype(to_enum(self._type.dtype.compute)))

    def narrow(self, x: Any, shape: tuple[int, ...]) -> Any:
        return _raw.Cast(x=_raw.Reshape(tensor=x, shape=np.asarray(shape, np.int64)),
                         DstT=tf.dtypes.as_dtype(to_enum(self._type.dtype)))

    def grouped(self, x: Any) -> Any:
        *rest, channels = x.shape.as_list()
        groups = self.attrs.groups
        return _raw.Reshape(tensor=x, shape=np.asarray([*rest, groups, channels // groups], np.int64))

    def filters(self, x: Any) -> Any:
        (count, *rest), groups = x.shape.as_list(), self.attrs.groups
        return _raw.Reshape(tensor=x, shape=np.asarray([groups, count // groups, *rest], np.int64))

    def padded(self, image: Any) -> Any:
        paddings = [(0, 0), *((p, p) for p in self.attrs.padding), (0, 0)]
        return self.grouped(_raw.Pad(input=image, paddings=np.asarray(paddings, np.int64)))

    def places(self) -> Iterator[tuple[int, int]]:
        return iter(np.ndindex(self._sizes.r, self._sizes.s))

    def seen(self, image: Any, i: int, j: int) -> Any:
        """What of the padded image all windows have at a place."""
        (top, left), (down, right), (rows, cols) = self._first(i, j), self.attrs.strides, self._counts()
        return image[:, top:top + down * (rows - 1) + 1:down, left:left + right * (cols - 1) + 1:right]

    def spread(self, x: Any, i: int, j: int) -> Any:
        """The opposite: a padded image with zeros elsewhere."""
        z, padding = self._sizes, self.attrs.padding
        for axis, first, stride, count, size in zip(
                (1, 2), self._first(i, j), self.attrs.strides, self._counts(),
                (z.h + 2 * padding[0], z.w + 2 * padding[1]), strict=True):
            indices = np.arange(count, dtype=np.int32) * stride + first
            chosen = np.zeros((size, count), x.dtype.as_numpy_dtype)
            chosen[indices, np.arange(count)] = 1
            x = tf.einsum("hp,npqgc->nhqgc" if axis == 1 else "wq,npqgc->npwgc", chosen, x)
        return x

    def _first(self, i: int, j: int) -> tuple[int, int]:
        return i * self.attrs.dilations[0], j * self.attrs.dilations[1]

    def _counts(self) -> tuple[int, int]:
        return self._sizes.p, self._sizes.q
