"""Convolutions in NumPy against their definition, element by element, and gradients as adjoints of them."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from tf_stitch.errors import TypeRuleError
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.convolution_reference import convolution, filter_grad, input_grad
from tf_stitch.ir.convolutions import ConvolutionSizes, sizes_of, terms_of
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind as K

B = Builder()
CASES = [ConvolutionAttrs((1, 1), (1, 1), (0, 0), 1), ConvolutionAttrs((2, 3), (1, 1), (1, 0), 1),
         ConvolutionAttrs((1, 2), (3, 1), (2, 1), 2), ConvolutionAttrs((1, 1), (1, 1), (1, 1), 4),
         ConvolutionAttrs((1, 1, 1), (1, 1, 1), (0, 0, 0), 1), ConvolutionAttrs((3, 1, 2), (1, 1, 1), (1, 0, 2), 1),
         ConvolutionAttrs((1, 2, 1), (1, 3, 2), (0, 2, 1), 2), ConvolutionAttrs((1, 1, 1), (1, 1, 1), (1, 1, 1), 4)]
SIZE, WINDOW = (9, 8, 5), (3, 2, 2)
"""Along the first axes of as many as a case has."""


def values(attrs: ConvolutionAttrs) -> tuple[Node, np.ndarray, np.ndarray]:
    rng, axes = np.random.default_rng(0), len(attrs.strides)
    image = rng.standard_normal((2, *SIZE[:axes], 4))
    filters = rng.standard_normal((8, *WINDOW[:axes], 4 // attrs.groups))
    x, w = B.input("x:0", DType.F64, image.shape), B.input("w:0", DType.F64, filters.shape)
    node = B.convolution(K.CONVOLUTION, x, w, attrs)
    return node, image, filters


def of_images_and_filters(attrs: ConvolutionAttrs) -> tuple[ConvolutionAttrs, ConvolutionAttrs]:
    """Of the gradients."""
    axes = len(attrs.strides)
    return replace(attrs, size=SIZE[:axes]), replace(attrs, size=WINDOW[:axes])


@pytest.mark.parametrize("attrs", CASES, ids=lambda a: a.text)
def test_forward(attrs: ConvolutionAttrs) -> None:
    node, image, filters = values(attrs)
    padded = np.pad(image, ((0, 0), *((p, p) for p in attrs.padding), (0, 0)))
    each, kept = 4 // attrs.groups, 8 // attrs.groups
    want = np.zeros(node.type.dims)
    for n, *at, k in np.ndindex(*want.shape):
        group = k // kept
        window = tuple(slice(i * stride, i * stride + dilation * (extent - 1) + 1, dilation) for i, stride, dilation,
                       extent in zip(at, attrs.strides, attrs.dilations, WINDOW, strict=False))
        want[(n, *at, k)] = np.sum(padded[(n, *window, slice(group * each, (group + 1) * each))] * filters[k])
    np.testing.assert_allclose(convolution(attrs, image, filters), want)


@pytest.mark.parametrize("attrs", CASES, ids=lambda a: a.text)
def test_gradients_are_adjoints(attrs: ConvolutionAttrs) -> None:
    node, image, filters = values(attrs)
    grad = np.random.default_rng(1).standard_normal(node.type.dims)
    whole = np.sum(convolution(attrs, image, filters) * grad)
    of_images, of_filters = of_images_and_filters(attrs)
    np.testing.assert_allclose(np.sum(input_grad(of_images, grad, filters) * image), whole)
    np.testing.assert_allclose(np.sum(filter_grad(of_filters, image, grad) * filters), whole)


@pytest.mark.parametrize("attrs", CASES, ids=lambda a: a.text)
def test_types_and_sizes(attrs: ConvolutionAttrs) -> None:
    forward, _, _ = values(attrs)
    x, w = forward.operands
    y = B.input("y:0", DType.F64, forward.type.shape)
    of_images, of_filters = of_images_and_filters(attrs)
    dx, dw = B.convolution(K.CONVOLUTION_INPUT_GRAD, y, w, of_images), \
        B.convolution(K.CONVOLUTION_FILTER_GRAD, x, y, of_filters)
    assert (dx.type, dw.type) == (x.type, w.type)
    _, *windows, _ = forward.type.dims
    sizes = ConvolutionSizes(2, 4, 8, of_images.size, of_filters.size, tuple(windows))
    assert all(sizes_of(node) == sizes for node in (forward, dx, dw))
    assert terms_of(forward) == prod(of_filters.size) * 4 // attrs.groups
    assert terms_of(dw) == 2 * prod(windows)


@pytest.mark.parametrize(("x", "w", "attrs", "said"), [
    ((2, 9, 8, 4), (8, 3, 2, 3), CASES[0], "do not fit the channels"),
    ((2, 9, 8, 4), (6, 3, 2, 1), CASES[3], "6 channels do not fall into 4 groups"),
    ((2, 2, 8, 4), (8, 3, 2, 4), CASES[0], "no window of 3 lies in an image of 2"),
    ((2, 9, 8), (8, 3, 2, 4), CASES[0], "ranks"),
    ((2, 9, 4), (8, 3, 4), ConvolutionAttrs((1,), (1,), (0,), 1), "ranks"),
    ((2, 9, 8, 5, 4), (8, 3, 2, 2, 4), CASES[0], "a convolution with strides=[1,1]"),
    ((2, 9, 8, 4), (8, 3, 2, 4), ConvolutionAttrs((0, 1), (1, 1), (0, 0), 1), "a convolution with strides=[0,1]")])
def test_what_does_not_fit_is_refused(x: tuple[int, ...], w: tuple[int, ...], attrs: ConvolutionAttrs, said: str
                                      ) -> None:
    with pytest.raises(TypeRuleError, match=said.replace("[", r"\[")):
        B.convolution(K.CONVOLUTION, B.input("x:0", DType.F32, x), B.input("w:0", DType.F32, w), attrs)
