"""Convolutions of images that TensorFlow cuts into blocks, and their gradients, become dilated ones of whole images."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential.runner import region
from tests.transforms.cut_images import Dilated
from tests.transforms.kinds import same_values
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_attrs import ConvolutionAttrs
from tf_stitch.ir.op_kinds import Category, OpKind
from tf_stitch.transforms.simplify_movement import SimplifyMovement
from tf_stitch.transforms.whole_dilated_convolutions import WholeDilatedConvolutions

SQUARE = Dilated((8, 8), (2, 2), (3, 3), (2, 2), (2, 2))


def changed(before: TensorGraph, rtol: float = 1e-9) -> TensorGraph:
    graph = before
    for step in (SimplifyMovement(), WholeDilatedConvolutions(), SimplifyMovement()):
        graph = step.run(graph).graph
    return same_values(before, graph, rtol, 1e-12)


def dilations(graph: TensorGraph) -> set[tuple[int, ...]]:
    return {n.attrs.dilations for n in graph.nodes() if isinstance(n.attrs, ConvolutionAttrs)}


@pytest.mark.parametrize("given", [
    SQUARE, replace(SQUARE, groups=4, k=4), Dilated((8, 8), (6, 6), (3, 3), (6, 6), (6, 6)),
    Dilated((9, 7), (2, 3), (3, 2), (2, 0), (2, 3), groups=2),
    Dilated((9, 7), (1, 2), (3, 3), (0, 2), (0, 2))], ids=str)
def test_of_two_axes(given: Dilated) -> None:
    graph = changed(given.graph())
    assert dilations(graph) == {given.blocks}
    assert not any(n.kind is OpKind.TRANSPOSE for n in graph.nodes())


@pytest.mark.parametrize("size", [15, 16])
def test_of_one_axis(size: int) -> None:
    graph = changed(Dilated((size,), (4,), (2,), (4,), (0,)).graph())
    assert dilations(graph) == {(1, 4)}
    assert not any(n.kind is OpKind.TRANSPOSE for n in graph.nodes())


def test_in_bfloat16() -> None:
    """Both round once, at the end."""
    assert dilations(changed(replace(SQUARE, dtype=DType.BF16).graph(), rtol=2**-7)) == {(2, 2)}


def test_what_was_cut_is_used_by_others() -> None:
    before = SQUARE.graph()
    [cut] = {n.operands[0] for n in before.nodes() if n.kind is OpKind.CONVOLUTION}
    graph = changed(region("g", [*(n for _, n in before.outputs), Builder().exp(cut)]))
    assert dilations(graph) == {(2, 2)}
    assert sum(n.kind is OpKind.TRANSPOSE for n in graph.nodes()) == 1


def test_results_that_nothing_joins_are_cut() -> None:
    [(_, forward), *_] = [(n.kind, n) for n in SQUARE.graph().nodes() if n.category is Category.CONVOLUTION]
    graph = changed(region("g", [forward]))
    assert dilations(graph) == {(2, 2)}
    assert sum(n.kind is OpKind.TRANSPOSE for n in graph.nodes()) == 1


@pytest.mark.parametrize("attrs", [ConvolutionAttrs((2, 2), (1, 1), (0, 0), 1),
                                   ConvolutionAttrs((1, 1), (1, 1), (1, 1), 1)], ids=str)
def test_strides_and_paddings_of_cut_images_stay(attrs: ConvolutionAttrs) -> None:
    [forward] = [n for n in SQUARE.graph().nodes() if n.kind is OpKind.CONVOLUTION]
    node = Builder().convolution(OpKind.CONVOLUTION, *forward.operands, attrs)
    assert dilations(changed(region("g", [node]))) == {(1, 1)}


def test_a_gradient_of_filters_needs_both_cut_alike() -> None:
    [node] = [n for n in SQUARE.graph().nodes() if n.kind is OpKind.CONVOLUTION_FILTER_GRAD]
    other = Builder().input("y:0", DType.F64, node.operands[1].type.shape)
    assert isinstance(node.attrs, ConvolutionAttrs)
    one = Builder().convolution(node.kind, node.operands[0], other, node.attrs)
    assert dilations(changed(region("g", [one]))) == {(1, 1)}
