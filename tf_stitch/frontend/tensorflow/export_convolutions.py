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
_AXES = "xyz"


def convolution(node: Node, image: Any, filters: Any) -> Any:
    one, z = _Convolution(node), sizes_of(node)
    image, filters = one.padded(one.wide(image)), one.filters(one.wide(filters))
    places = (one.einsum("n.gc,gkc->n.gk", one.seen(image, place), _at(filters, place)) for place in one.places())
    return one.narrow(_total(places), (z.n, *z.windows, z.k))


def input_grad(node: Node, grad: Any, filters: Any) -> Any:
    one, z = _Convolution(node), sizes_of(node)
    grad, filters = one.grouped(one.wide(grad)), one.filters(one.wide(filters))
    whole = _total(one.spread(one.einsum("n.gk,gkc->n.gc", grad, _at(filters, place)), place)
                   for place in one.places())
    inner = (slice(padding, padding + size) for padding, size in zip(one.attrs.padding, z.image, strict=True))
    return one.narrow(whole[(slice(None), *inner)], (z.n, *z.image, z.c))


def filter_grad(node: Node, image: Any, grad: Any) -> Any:
    one, z = _Convolution(node), sizes_of(node)
    image, grad = one.padded(one.wide(image)), one.grouped(one.wide(grad))
    places = [one.einsum("n.gk,n.gc->gkc", grad, one.seen(image, place)) for place in one.places()]
    return one.narrow(_raw.Pack(values=places, axis=2), (z.k, *z.window, z.c // one.attrs.groups))


def _at(filters: Any, place: tuple[int, ...]) -> Any:
    """[groups, k, c] of filters [groups, k, *window, c]."""
    return filters[(slice(None), slice(None), *place)]


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

    def einsum(self, equation: str, x: Any, y: Any) -> Any:
        """With all axes of windows for a point."""
        return tf.einsum(equation.replace(".", _AXES[:len(self.attrs.strides)]), x, y)

    def places(self) -> Iterator[tuple[int, ...]]:
        return iter(np.ndindex(*self._sizes.window))

    def seen(self, image: Any, place: tuple[int, ...]) -> Any:
        """What of the padded image all windows have at a place."""
        return image[(slice(None), *(slice(begin, begin + stride * (count - 1) + 1, stride) for begin, stride, count
                                     in zip(self._first(place), self.attrs.strides, self._sizes.windows, strict=True)))]

    def spread(self, x: Any, place: tuple[int, ...]) -> Any:
        """The opposite: a padded image with zeros elsewhere."""
        z, axes = self._sizes, _AXES[:len(self.attrs.strides)]
        for axis, first, stride, count, size, padding in zip(
                axes, self._first(place), self.attrs.strides, z.windows, z.image, self.attrs.padding, strict=True):
            indices = np.arange(count, dtype=np.int32) * stride + first
            chosen = np.zeros((size + 2 * padding, count), x.dtype.as_numpy_dtype)
            chosen[indices, np.arange(count)] = 1
            x = self.einsum(f"s{axis},n.gc->n{axes.replace(axis, 's')}gc", chosen, x)
        return x

    def _first(self, place: tuple[int, ...]) -> Iterator[int]:
        return (i * dilation for i, dilation in zip(place, self.attrs.dilations, strict=True))
