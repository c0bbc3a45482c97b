"""Zeros around images become padding of dilated convolutions and of their gradients."""

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
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.passes.pads_into_convolutions import PadsIntoConvolutions
from tf_stitch.passes.simplify_movement import SimplifyMovement
from tf_stitch.passes.whole_dilated_convolutions import WholeDilatedConvolutions

KINDS = frozenset((OpKind.CONVOLUTION, OpKind.CONVOLUTION_INPUT_GRAD, OpKind.CONVOLUTION_FILTER_GRAD))
MOVED = (OpKind.PAD, OpKind.SLICE, OpKind.TRANSPOSE)


def changed(given: Dilated) -> TensorGraph:
    before = given.graph()
    for step in (SimplifyMovement(), WholeDilatedConvolutions(KINDS), SimplifyMovement()):
        before = step.run(before).graph
    return same_values(before, PadsIntoConvolutions().run(before).graph, 1e-9, 1e-12)


def paddings(graph: TensorGraph) -> list[tuple[int, ...]]:
    return [n.attrs.padding for n in graph.nodes() if isinstance(n.attrs, ConvolutionAttrs)]


@pytest.mark.parametrize("given", [
    Dilated((8, 8), (2, 2), (3, 3), (2, 2), (2, 2)), Dilated((8, 8), (3, 3), (3, 3), (3, 3), (3, 3)),
    Dilated((8, 8), (6, 6), (3, 3), (6, 6), (6, 6)), Dilated((9, 7), (2, 2), (3, 3), (2, 2), (2, 2)),
    Dilated((9, 7), (2, 2), (3, 3), (0, 0), (0, 0)), Dilated((15,), (4,), (3,), (4,), (4,))], ids=str)
def test_both_sides_alike(given: Dilated) -> None:
    graph = changed(given)
    assert paddings(graph) == [((0,) * (2 - len(given.low)) + given.low)] * 3
    assert not any(n.kind in MOVED for n in graph.nodes())


def test_what_one_side_has_more_is_padded_before() -> None:
    graph = changed(Dilated((9, 7), (2, 3), (3, 2), (3, 0), (2, 3)))
    assert paddings(graph) == [(2, 0)] * 3
    assert {n.attrs.low[1:3] + n.attrs.high[1:3] for n in graph.nodes() if n.kind is OpKind.PAD} == {(1, 0, 0, 3)}


@pytest.mark.parametrize("size", [15, 16])
def test_causal(size: int) -> None:
    graph = changed(Dilated((size,), (4,), (3,), (8,), (0,)))
    assert paddings(graph) == [(0, 0)] * 3
    assert sum(n.kind is OpKind.SLICE for n in graph.nodes()) == 1


def test_other_values_around_images_stay() -> None:
    b, attrs = Builder(), ConvolutionAttrs((1, 1), (2, 2), (0, 0), 1)
    x, w = b.input("x:0", DType.F64, (2, 8, 8, 4)), b.input("w:0", DType.F64, (6, 3, 3, 4))
    padded = b.pad(x, b.constant(1, DType.F64), (0, 2, 2, 0), (0, 2, 2, 0))
    made = b.convolution(OpKind.CONVOLUTION, padded, w, attrs)
    graph = region("g", [b.slice(made, (0,) * 4, (1,) * 4, made.type.shape)])
    after = same_values(graph, PadsIntoConvolutions().run(graph).graph)
    assert any(n.kind is OpKind.PAD for n in after.nodes())


def test_dense_ones_stay() -> None:
    given = replace(Dilated((8, 8), (2, 2), (3, 3), (2, 2), (2, 2)), blocks=(1, 1))
    assert {*paddings(changed(given))} == {(0, 0)}


def test_slices_of_one_result_share_a_convolution() -> None:
    """As a variance in one pass reads the first image's first element."""
    given = Dilated((8, 8), (3, 3), (3, 3), (3, 3), (3, 3)).graph()
    [(_, forward), *_] = given.outputs
    b = Builder()
    graph = region("g", [b.exp(forward), b.exp(b.slice(forward, (0, 0, 1, 2), (1, 1, 2, 1), (1, 1, 2, 3)))])
    for step in (SimplifyMovement(), WholeDilatedConvolutions(KINDS), SimplifyMovement()):
        graph = step.run(graph).graph
    assert paddings(same_values(graph, PadsIntoConvolutions().run(graph).graph, 1e-9, 1e-12)) == [(3, 3)]


def test_results_that_are_read_whole_stay() -> None:
    b, attrs = Builder(), ConvolutionAttrs((1, 1), (2, 2), (0, 0), 1)
    x, w = b.input("x:0", DType.F64, (2, 8, 8, 4)), b.input("w:0", DType.F64, (6, 3, 3, 4))
    made = b.convolution(OpKind.CONVOLUTION, x, w, attrs)
    graph = region("g", [b.slice(made, (0,) * 4, (1,) * 4, (2, 3, 3, 6)), b.exp(made)])
    assert not PadsIntoConvolutions().run(graph).modified
