"""NumPy meaning of convolutions of images of any number of axes: slow, a matmul for each place in the window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tf_stitch.ir.op_attrs import ConvolutionAttrs

Array: TypeAlias = NDArray[Any]


def convolution(attrs: ConvolutionAttrs, image: Array, filters: Array) -> Array:
    """Images [n, *image, c] by filters [k, *window, c / groups] -> [n, *windows, k]."""
    padded = _grouped(_padded(attrs, image), attrs.groups)
    filters = filters.reshape(attrs.groups, -1, *filters.shape[1:])
    windows = [(size + 2 * padding - dilation * (extent - 1) - 1) // stride + 1
               for size, padding, dilation, extent, stride in zip(
                   image.shape[1:-1], attrs.padding, attrs.dilations, filters.shape[2:-1], attrs.strides, strict=True)]
    out = np.zeros((image.shape[0], *windows, attrs.groups, filters.shape[1]), image.dtype)
    for place, seen in _places(attrs, filters.shape[2:-1], windows):
        out += np.einsum("n...gc,gkc->n...gk", padded[seen], _at(filters, place), optimize=True)
    return out.reshape(*out.shape[:-2], -1)


def input_grad(attrs: ConvolutionAttrs, grad: Array, filters: Array) -> Array:
    """Gradient of a convolution's result [n, *windows, k], filters [k, *window, c / groups] -> that of its images."""
    grad = _grouped(grad, attrs.groups)
    filters = filters.reshape(attrs.groups, -1, *filters.shape[1:])
    size = [d + 2 * padding for d, padding in zip(attrs.size, attrs.padding, strict=True)]
    out = np.zeros((grad.shape[0], *size, attrs.groups, filters.shape[-1]), grad.dtype)
    for place, seen in _places(attrs, filters.shape[2:-1], grad.shape[1:-2]):
        out[seen] += np.einsum("n...gk,gkc->n...gc", grad, _at(filters, place), optimize=True)
    inner = (slice(padding, padding + d) for d, padding in zip(attrs.size, attrs.padding, strict=True))
    return out[(slice(None), *inner)].reshape(grad.shape[0], *attrs.size, -1)


def filter_grad(attrs: ConvolutionAttrs, image: Array, grad: Array) -> Array:
    """Images [n, *image, c], gradient of a convolution's result [n, *windows, k] -> that of its filters."""
    padded, grad = _grouped(_padded(attrs, image), attrs.groups), _grouped(grad, attrs.groups)
    out = np.zeros((attrs.groups, grad.shape[-1], *attrs.size, padded.shape[-1]), image.dtype)
    rows = grad.reshape(-1, *grad.shape[-2:])
    for place, seen in _places(attrs, attrs.size, grad.shape[1:-2]):
        _at(out, place)[...] = np.einsum("rgk,rgc->gkc", rows, padded[seen].reshape(-1, *padded.shape[-2:]),
                                         optimize=True)
    return out.reshape(-1, *out.shape[2:])


def _padded(attrs: ConvolutionAttrs, image: Array) -> Array:
    return np.pad(image, ((0, 0), *((padding, padding) for padding in attrs.padding), (0, 0)))


def _grouped(x: Array, groups: int) -> Array:
    return x.reshape(*x.shape[:-1], groups, -1)


def _at(filters: Array, place: tuple[int, ...]) -> Array:
    """[groups, k, c] of filters [groups, k, *window, c]."""
    seen: Array = filters[(slice(None), slice(None), *place)]  # type: ignore[arg-type]
    return seen


def _places(attrs: ConvolutionAttrs, window: Sequence[int], windows: Sequence[int]
            ) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Each place in the window, and what of padded images all windows have there."""
    for place in np.ndindex(*window):
        begins = (i * dilation for i, dilation in zip(place, attrs.dilations, strict=True))
        seen = (slice(begin, begin + stride * (count - 1) + 1, stride)
                for begin, stride, count in zip(begins, attrs.strides, windows, strict=True))
        yield place, (slice(None), *seen)
