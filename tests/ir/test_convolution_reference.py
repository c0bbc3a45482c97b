"""Convolutions in NumPy against their definition, element by element, and gradients as adjoints of them."""

from __future__ import annotations

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
         ConvolutionAttrs((1, 2), (3, 1), (2, 1), 2), ConvolutionAttrs((1, 1), (1, 1), (1, 1), 4)]
SIZE = (9, 8)


def values(attrs: ConvolutionAttrs) -> tuple[Node, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    image, filters = rng.standard_normal((2, *SIZE, 4)), rng.standard_normal((8, 3, 2, 4 // attrs.groups))
    x, w = B.input("x:0", DType.F64, image.shape), B.input("w:0", DType.F64, filters.shape)
    node = B.convolution(K.CONVOLUTION, x, w, attrs)
    return node, image, filters


@pytest.mark.parametrize("attrs", CASES, ids=lambda a: a.text)
def test_forward(attrs: ConvolutionAttrs) -> None:
    node, image, filters = values(attrs)
    padded = np.pad(image, ((0, 0), *((p, p) for p in attrs.padding), (0, 0)))
    (sy, sx), (dy, dx), each, kept = attrs.strides, attrs.dilations, 4 // attrs.groups, 8 // attrs.groups
    want = np.zeros(node.type.dims)
    for n, p, q, k in np.ndindex(*want.shape):
        group = k // kept
        window = padded[n, p * sy:p * sy + 2 * dy + 1:dy, q * sx:q * sx + dx + 1:dx, group * each:(group + 1) * each]
        want[n, p, q, k] = np.sum(window * filters[k])
    np.testing.assert_allclose(convolution(attrs, image, filters), want)


@pytest.mark.parametrize("attrs", CASES, ids=lambda a: a.text)
def test_gradients_are_adjoints(attrs: ConvolutionAttrs) -> None:
    node, image, filters = values(attrs)
    grad = np.random.default_rng(1).standard_normal(node.type.dims)
    whole = np.sum(convolution(attrs, image, filters) * grad)
    of_images = ConvolutionAttrs(attrs.strides, attrs.dilations, attrs.padding, attrs.groups, SIZE)
    of_filters = ConvolutionAttrs(attrs.strides, attrs.dilations, attrs.padding, attrs.groups, (3, 2))
    np.testing.assert_allclose(np.sum(input_grad(of_images, grad, filters) * image), whole)
    np.testing.assert_allclose(np.sum(filter_grad(of_filters, image, grad) * filters), whole)


@pytest.mark.parametrize("attrs", CASES, ids=lambda a: a.text)
def test_types_and_sizes(attrs: ConvolutionAttrs) -> None:
    forward, _, _ = values(attrs)
    x, w = forward.operands
    y = B.input("y:0", DType.F64, forward.type.shape)
    of_images = ConvolutionAttrs(attrs.strides, attrs.dilations, attrs.padding, attrs.groups, SIZE)
    of_filters = ConvolutionAttrs(attrs.strides, attrs.dilations, attrs.padding, attrs.groups, (3, 2))
    dx, dw = B.convolution(K.CONVOLUTION_INPUT_GRAD, y, w, of_images), \
        B.convolution(K.CONVOLUTION_FILTER_GRAD, x, y, of_filters)
    assert (dx.type, dw.type) == (x.type, w.type)
    _, p, q, _ = forward.type.dims
    assert all(sizes_of(node) == ConvolutionSizes(2, *SIZE, 4, 8, 3, 2, p, q) for node in (forward, dx, dw))
    assert terms_of(forward) == 3 * 2 * 4 // attrs.groups
    assert terms_of(dw) == 2 * p * q


@pytest.mark.parametrize(("x", "w", "attrs", "said"), [
    ((2, 9, 8, 4), (8, 3, 2, 3), CASES[0], "do not fit the channels"),
    ((2, 9, 8, 4), (6, 3, 2, 1), CASES[3], "6 channels do not fall into 4 groups"),
    ((2, 2, 8, 4), (8, 3, 2, 4), CASES[0], "no window of 3 lies in an image of 2"),
    ((2, 9, 8), (8, 3, 2, 4), CASES[0], "ranks"),
    ((2, 9, 8, 4), (8, 3, 2, 4), ConvolutionAttrs((0, 1), (1, 1), (0, 0), 1), "a convolution with strides=[0,1]")])
def test_what_does_not_fit_is_refused(x: tuple[int, ...], w: tuple[int, ...], attrs: ConvolutionAttrs, said: str
                                      ) -> None:
    with pytest.raises(TypeRuleError, match=said.replace("[", r"\[")):
        B.convolution(K.CONVOLUTION, B.input("x:0", DType.F32, x), B.input("w:0", DType.F32, w), attrs)
