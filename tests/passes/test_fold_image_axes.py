"""Convolutions of three axes whose windows leave some as they are become ones of two, and mean the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential.runner import region
from tests.passes.kinds import same_values
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.passes.fold_image_axes import FoldImageAxes

B = Builder()
IMAGE = (2, 5, 4, 3, 4)


def passes(window: tuple[int, ...], attrs: ConvolutionAttrs) -> list[Node]:
    """A convolution and its gradients."""
    x, w = B.input("x:0", DType.F64, IMAGE), B.input("w:0", DType.F64, (6, *window, 4 // attrs.groups))
    forward = B.convolution(K.CONVOLUTION, x, w, attrs)
    y = B.input("y:0", DType.F64, forward.type.dims)
    return [forward, B.convolution(K.CONVOLUTION_INPUT_GRAD, y, w, replace(attrs, size=IMAGE[1:-1])),
            B.convolution(K.CONVOLUTION_FILTER_GRAD, x, y, replace(attrs, size=window))]


def changed(node: Node) -> TensorGraph:
    graph = region("g", [node])
    return same_values(graph, FoldImageAxes().run(graph).graph, rtol=1e-7, atol=0)


@pytest.mark.parametrize(("window", "attrs", "image"), [
    ((1, 3, 2), ConvolutionAttrs((1, 2, 1), (1, 1, 2), (0, 1, 0), 2), (10, 4, 3, 4)),
    ((3, 1, 1), ConvolutionAttrs((2, 1, 1), (1, 1, 1), (1, 0, 0), 1), (2, 5, 12, 4)),
    ((1, 1, 1), ConvolutionAttrs((1, 2, 2), (1, 1, 1), (0, 0, 0), 1), (10, 4, 3, 4))], ids=str)
def test_they_are_of_two_axes(window: tuple[int, ...], attrs: ConvolutionAttrs, image: tuple[int, ...]) -> None:
    for node in passes(window, attrs):
        [made] = [n for n in changed(node).nodes() if n.category is Category.CONVOLUTION]
        assert image in (made.type.dims, *(o.type.dims for o in made.operands))


@pytest.mark.parametrize(("window", "attrs"), [
    ((2, 3, 3), ConvolutionAttrs((1, 1, 1), (1, 1, 1), (0, 1, 1), 1)),
    ((1, 3, 3), ConvolutionAttrs((2, 1, 1), (1, 1, 1), (0, 1, 1), 1)),
    ((1, 3, 3), ConvolutionAttrs((1, 1, 1), (1, 1, 1), (1, 1, 1), 1)),
    ((3, 1, 3), ConvolutionAttrs((1, 1, 1), (1, 1, 1), (1, 0, 1), 1)),
    ((3, 1, 1), ConvolutionAttrs((1, 1, 2), (1, 1, 1), (1, 0, 0), 1))], ids=str)
def test_others_stay(window: tuple[int, ...], attrs: ConvolutionAttrs) -> None:
    for node in passes(window, attrs):
        assert node in changed(node).nodes()


def test_images_of_two_axes_stay() -> None:
    x, w = B.input("x:0", DType.F64, (2, 4, 3, 4)), B.input("w:0", DType.F64, (6, 1, 3, 4))
    node = B.convolution(K.CONVOLUTION, x, w, ConvolutionAttrs((1, 1), (1, 1), (0, 1), 1))
    assert node in changed(node).nodes()
