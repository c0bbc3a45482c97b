"""NumPy meaning of convolutions of images: slow, a matmul for each place in the window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tf_stitch.ir.op_attrs import ConvolutionAttrs

Array: TypeAlias = NDArray[Any]


def convolution(attrs: ConvolutionAttrs, image: Array, filters: Array) -> Array:
    """Images [n, h, w, c] by filters [k, r, s, c / groups] -> [n, p, q, k]."""
    padded = _grouped(_padded(attrs, image), attrs.groups)
    filters = filters.reshape(attrs.groups, -1, *filters.shape[1:])
    windows = [(size + 2 * padding - dilation * (extent - 1) - 1) // stride + 1
               for size, padding, dilation, extent, stride in zip(
                   image.shape[1:3], attrs.padding, attrs.dilations, filters.shape[2:4], attrs.strides, strict=True)]
    out = np.zeros((image.shape[0], *windows, attrs.groups, filters.shape[1]), image.dtype)
    for i, j, seen in _places(attrs, filters.shape[2:4], windows):
        out += np.einsum("npqgc,gkc->npqgk", padded[seen], filters[:, :, i, j], optimize=True)
    return out.reshape(*out.shape[:3], -1)


def input_grad(attrs: ConvolutionAttrs, grad: Array, filters: Array) -> Array:
    """Gradient of a convolution's result [n, p, q, k], filters [k, r, s, c / groups] -> that of its images."""
    grad = _grouped(grad, attrs.groups)
    filters = filters.reshape(attrs.groups, -1, *filters.shape[1:])
    size = [d + 2 * padding for d, padding in zip(attrs.size, attrs.padding, strict=True)]
    out = np.zeros((grad.shape[0], *size, attrs.groups, filters.shape[-1]), grad.dtype)
    for i, j, seen in _places(attrs, filters.shape[2:4], grad.shape[1:3]):
        out[seen] += np.einsum("npqgk,gkc->npqgc", grad, filters[:, :, i, j], optimize=True)
    inner = (slice(padding, padding + d) for d, padding in zip(attrs.size, attrs.padding, strict=True))
    return out[(slice(None), *inner)].reshape(grad.shape[0], *attrs.size, -1)


def filter_grad(attrs: ConvolutionAttrs, image: Array, grad: Array) -> Array:
    """Images [n, h, w, c], gradient of a convolution's result [n, p, q, k] -> that of its filters."""
    padded, grad = _grouped(_padded(attrs, image), attrs.groups), _grouped(grad, attrs.groups)
    out = np.zeros((attrs.groups, grad.shape[-1], *attrs.size, padded.shape[-1]), image.dtype)
    for i, j, seen in _places(attrs, attrs.size, grad.shape[1:3]):
        out[:, :, i, j] = np.einsum("npqgk,npqgc->gkc", grad, padded[seen], optimize=True)
    return out.reshape(-1, *out.shape[2:])


def _padded(attrs: ConvolutionAttrs, image: Array) -> Array:
    return np.pad(image, ((0, 0), *((padding, padding) for padding in attrs.padding), (0, 0)))


def _grouped(x: Array, groups: int) -> Array:
    return x.reshape(*x.shape[:3], groups, -1)


def _places(attrs: ConvolutionAttrs, window: Any, windows: Any) -> Iterator[tuple[int, int, tuple[slice, ...]]]:
    """Each place in the window, and what of padded images all windows have there."""
    for i in range(window[0]):
        for j in range(window[1]):
            first = (i * attrs.dilations[0], j * attrs.dilations[1])
            rows, cols = (slice(begin, begin + stride * (count - 1) + 1, stride)
                          for begin, stride, count in zip(first, attrs.strides, windows, strict=True))
            yield i, j, (slice(None), rows, cols)
