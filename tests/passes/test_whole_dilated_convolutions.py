"""Convolutions of images that TensorFlow cuts into blocks, and their gradients, become dilated ones of whole images."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential.runner import region
from tests.passes.cut_images import Dilated
from tests.passes.kinds import same_values
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.passes.simplify_movement import SimplifyMovement
from tf_stitch.passes.whole_dilated_convolutions import WholeDilatedConvolutions

KINDS = frozenset((K.CONVOLUTION, K.CONVOLUTION_INPUT_GRAD, K.CONVOLUTION_FILTER_GRAD))
SQUARE = Dilated((8, 8), (2, 2), (3, 3), (2, 2), (2, 2))


def changed(before: TensorGraph, rtol: float = 1e-9, kinds: frozenset[K] = KINDS) -> TensorGraph:
    graph = before
    for step in (SimplifyMovement(), WholeDilatedConvolutions(kinds), SimplifyMovement()):
        graph = step.run(graph).graph
    return same_values(before, graph, rtol, 1e-12)


def dilations(graph: TensorGraph) -> set[tuple[int, ...]]:
    return {n.attrs.dilations for n in graph.nodes() if isinstance(n.attrs, ConvolutionAttrs)}


@pytest.mark.parametrize("given", [
    SQUARE, Dilated((8, 8), (6, 6), (3, 3), (6, 6), (6, 6)),
    Dilated((9, 7), (2, 3), (3, 2), (2, 0), (2, 3)),
    Dilated((9, 7), (1, 2), (3, 3), (0, 2), (0, 2))], ids=str)
def test_of_two_axes(given: Dilated) -> None:
    graph = changed(given.graph())
    assert dilations(graph) == {given.blocks}
    assert not any(n.kind is K.TRANSPOSE for n in graph.nodes())


@pytest.mark.parametrize("size", [15, 16])
def test_of_one_axis(size: int) -> None:
    graph = changed(Dilated((size,), (4,), (2,), (4,), (0,)).graph())
    assert dilations(graph) == {(1, 4)}
    assert not any(n.kind is K.TRANSPOSE for n in graph.nodes())


def test_fewer_axes_than_are_wanted_stay() -> None:
    passed = WholeDilatedConvolutions(KINDS, least_axes=2)
    assert not passed.run(Dilated((15,), (4,), (2,), (4,), (0,)).graph()).modified
    assert passed.run(SQUARE.graph()).modified


def test_in_bfloat16() -> None:
    """Both round once, at the end."""
    assert dilations(changed(replace(SQUARE, dtype=DType.BF16).graph(), rtol=2**-7)) == {(2, 2)}


def test_what_was_cut_is_used_by_others() -> None:
    before = SQUARE.graph()
    [cut] = {n.operands[0] for n in before.nodes() if n.kind is K.CONVOLUTION}
    graph = changed(region("g", [*(n for _, n in before.outputs), Builder().exp(cut)]))
    assert dilations(graph) == {(2, 2)}
    assert sum(n.kind is K.TRANSPOSE for n in graph.nodes()) == 1


def test_other_kinds_stay() -> None:
    """What was cut is for the gradient of filters alone; nothing is joined."""
    graph = changed(SQUARE.graph(), kinds=KINDS - {K.CONVOLUTION_FILTER_GRAD})
    [dense] = [n for n in graph.nodes() if isinstance(n.attrs, ConvolutionAttrs) and n.attrs.dilations == (1, 1)]
    assert dense.kind is K.CONVOLUTION_FILTER_GRAD
    assert sum(n.kind is K.TRANSPOSE for n in graph.nodes()) == 2


def test_groups_stay() -> None:
    assert dilations(changed(replace(SQUARE, groups=4, k=4).graph())) == {(1, 1)}


def test_results_that_nothing_joins_are_cut() -> None:
    [(_, forward), *_] = [(n.kind, n) for n in SQUARE.graph().nodes() if n.category is Category.CONVOLUTION]
    graph = changed(region("g", [forward]))
    assert dilations(graph) == {(2, 2)}
    assert sum(n.kind is K.TRANSPOSE for n in graph.nodes()) == 1


@pytest.mark.parametrize("attrs", [ConvolutionAttrs((2, 2), (1, 1), (0, 0), 1),
                                   ConvolutionAttrs((1, 1), (1, 1), (1, 1), 1)], ids=str)
def test_strides_and_paddings_of_cut_images_stay(attrs: ConvolutionAttrs) -> None:
    [forward] = [n for n in SQUARE.graph().nodes() if n.kind is K.CONVOLUTION]
    images, filters = forward.operands
    node = Builder().convolution(K.CONVOLUTION, images, filters, attrs)
    assert dilations(changed(region("g", [node]))) == {(1, 1)}


def test_a_gradient_of_filters_needs_both_cut_alike() -> None:
    [node] = [n for n in SQUARE.graph().nodes() if n.kind is K.CONVOLUTION_FILTER_GRAD]
    other = Builder().input("y:0", DType.F64, node.operands[1].type.shape)
    assert isinstance(node.attrs, ConvolutionAttrs)
    one = Builder().convolution(node.kind, node.operands[0], other, node.attrs)
    assert dilations(changed(region("g", [one]))) == {(1, 1)}
