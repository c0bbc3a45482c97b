"""Convolutions of single elements become matmuls, and mean the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential.runner import region
from tests.passes.kinds import same_values
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.passes.convolutions_to_matmuls import ConvolutionsToMatmuls

B = Builder()
ATTRS = ConvolutionAttrs((1, 1), (2, 1), (0, 0), 1)
X = B.input("x:0", DType.F64, (2, 4, 5, 3))
Y = B.input("y:0", DType.F64, (2, 4, 5, 6))
AS_TENSORFLOW = B.transpose(B.input("w:0", DType.F64, (1, 1, 3, 6)), (3, 0, 1, 2))
AS_OURS = B.input("w:0", DType.F64, (6, 1, 1, 3))
FILTER_GRAD = B.convolution(K.CONVOLUTION_FILTER_GRAD, X, Y, replace(ATTRS, size=(1, 1)))


def changed(node: Node) -> TensorGraph:
    graph = region("g", [node])
    return same_values(graph, ConvolutionsToMatmuls().run(graph).graph, rtol=1e-7, atol=0)


def of_volumes() -> list[Node]:
    """Convolutions by filters of one element, and gradients of them."""
    attrs = ConvolutionAttrs((1, 1, 1), (1, 2, 1), (0, 0, 0), 1)
    x, y = B.input("x:0", DType.F64, (2, 3, 4, 5, 3)), B.input("y:0", DType.F64, (2, 3, 4, 5, 6))
    w = B.transpose(B.input("w:0", DType.F64, (1, 1, 1, 3, 6)), (4, 0, 1, 2, 3))
    filters = B.convolution(K.CONVOLUTION_FILTER_GRAD, x, y, replace(attrs, size=(1, 1, 1)))
    return [B.convolution(K.CONVOLUTION, x, w, attrs),
            B.convolution(K.CONVOLUTION_INPUT_GRAD, y, w, replace(attrs, size=(3, 4, 5))), filters,
            B.transpose(filters, (1, 2, 3, 4, 0))]


@pytest.mark.parametrize("node", [
    *of_volumes(), *(B.convolution(K.CONVOLUTION, X, w, ATTRS) for w in (AS_TENSORFLOW, AS_OURS)),
    *(B.convolution(K.CONVOLUTION_INPUT_GRAD, Y, w, replace(ATTRS, size=(4, 5))) for w in (AS_TENSORFLOW, AS_OURS)),
    FILTER_GRAD, B.transpose(FILTER_GRAD, (1, 2, 3, 0))], ids=str)
def test_they_are_matmuls_of_what_lies_there(node: Node) -> None:
    kinds = {n.kind for n in changed(node).nodes()}
    assert kinds == {K.INPUT, K.RESHAPE, K.DOT}


def test_others_stay() -> None:
    strides, padding = replace(ATTRS, strides=(2, 1)), replace(ATTRS, padding=(0, 1))
    groups = B.convolution(K.CONVOLUTION, X, B.input("g:0", DType.F64, (6, 1, 1, 1)), replace(ATTRS, groups=3))
    windows = B.convolution(K.CONVOLUTION, X, B.input("v:0", DType.F64, (6, 1, 2, 3)), ATTRS)
    for node in (B.convolution(K.CONVOLUTION, X, AS_OURS, strides), B.convolution(K.CONVOLUTION, X, AS_OURS, padding),
                 groups, windows, B.transpose(B.convolution(K.CONVOLUTION, X, AS_OURS, ATTRS), (3, 0, 1, 2))):
        kept = changed(node)
        assert (K.CONVOLUTION in {n.kind for n in kept.nodes()}) is (node.kind is K.CONVOLUTION)
