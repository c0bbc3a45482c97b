"""Movement that cancels goes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential.runner import random_values, region
from tests.passes.kinds import kinds
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.interpreter import interpret
from tf_stitch.passes.simplify_movement import SimplifyMovement

B, F32 = Builder(), DType.F32
X = B.input("x:0", F32, (4, 6))


def test_movement_that_cancels() -> None:
    p = SimplifyMovement()
    assert kinds(p, B.reshape(B.reshape(X, (24,)), (4, 6))) == []
    assert kinds(p, B.reshape(B.reshape(X, (24,)), (3, 8))) == ["reshape"]
    assert kinds(p, B.transpose(B.transpose(X, (1, 0)), (1, 0))) == []
    assert kinds(p, B.broadcast(B.broadcast(X, (2, 4, 6)), (3, 2, 4, 6))) == ["broadcast"]
    row = B.broadcast(B.input("r:0", F32, (6,)), (4, 6))
    assert kinds(p, B.add(X, row)) == ["add"]


def test_transposes_in_sequence_are_one() -> None:
    """Permutations that are not their own inverses, nor each other's."""
    x = B.input("x:0", F32, (2, 3, 4))
    graph = region("g", [B.transpose(B.transpose(x, (1, 2, 0)), (0, 2, 1))])
    result = SimplifyMovement().run(graph).graph
    assert [n.kind.value for n in result.nodes()] == ["input", "transpose"]
    values = random_values(graph)
    np.testing.assert_array_equal(interpret(result, values)["o0"], interpret(graph, values)["o0"])


@pytest.mark.parametrize(("shape", "first", "between", "second", "kinds"), [
    ((3, 5, 8, 1), (2, 3, 0, 1), (8, 3, 5), (1, 2, 0), ["input", "reshape"]),  # filters of a depthwise convolution
    ((3, 5, 1, 8), (3, 0, 1, 2), (8, 3, 5), (1, 2, 0), ["input", "reshape"]),
    ((3, 5, 8), (2, 0, 1), (8, 3, 5, 1), (1, 2, 0, 3), ["input", "reshape"]),
    ((3, 5, 8, 1), (2, 3, 0, 1), (8, 3, 5), (2, 1, 0), ["input", "transpose", "reshape", "transpose"]),
    ((3, 5, 8, 1), (2, 3, 0, 1), (8, 5, 3), (1, 2, 0), ["input", "transpose", "reshape", "transpose"])])
def test_transposes_that_undo_each_other(shape: tuple[int, ...], first: tuple[int, ...], between: tuple[int, ...],
                                         second: tuple[int, ...], kinds: list[str]) -> None:
    """Axes of one element may come or go in between."""
    x = B.input("x:0", F32, shape)
    graph = region("g", [B.transpose(B.reshape(B.transpose(x, first), between), second)])
    result = SimplifyMovement().run(graph).graph
    assert [n.kind.value for n in result.nodes()] == kinds
    values = random_values(graph)
    np.testing.assert_array_equal(interpret(result, values)["o0"], interpret(graph, values)["o0"])


def test_movement_that_stays() -> None:
    p = SimplifyMovement()
    assert kinds(p, B.transpose(X, (1, 0))) == ["transpose"]
    row, column = B.input("r:0", F32, (1, 6)), B.input("c:0", F32, (4, 1))
    assert kinds(p, B.add(B.broadcast(row, (2, 4, 6)), column)) == ["broadcast", "add"], "nothing else gives the shape"


def halves(whole: Node) -> list[Node]:
    """Keys and values of the second of three layers of a cache [2, 3, 2, 9, 4], as a decoder cuts them out."""
    layer = B.reshape(B.slice(whole, (0, 1, 0, 0, 0), (1,) * 5, (2, 1, 2, 9, 4)), (2, 2, 9, 4))
    return [B.reshape(B.slice(layer, (0, half, 8, 0), (1, 1, -2, 1), (2, 1, 4, 4)), (2, 4, 4)) for half in (0, 1)]


def test_slices_of_slices_are_one_each() -> None:
    graph = region("g", halves(B.input("x:0", F32, (2, 3, 2, 9, 4))))
    result = SimplifyMovement().run(graph).graph
    assert [n.kind.value for n in result.nodes()] == ["input", "slice", "reshape", "slice", "reshape"]
    values = random_values(graph)
    for key, wanted in interpret(graph, values).items():
        np.testing.assert_array_equal(interpret(result, values)[key], wanted)


@pytest.mark.parametrize(("begin", "stride", "size", "kinds"), [
    (0, 1, 2, ["input"]), (2, 1, 5, ["input"]), (3, 1, 2, ["input", "slice"]), (2, 2, 3, ["input", "slice"]),
    (6, -2, 3, ["input", "slice"]), (1, -1, 2, ["input", "slice"]), (7, 1, 1, ["input"]),
    (1, 1, 2, ["input", "input", "input", "concat", "slice"]),
    (4, -1, 4, ["input", "input", "input", "concat", "slice"])])  # fmt: skip
def test_a_slice_of_one_operand_of_a_concat(begin: int, stride: int, size: int, kinds: list[str]) -> None:
    """Backwards, too."""
    parts = [B.input(f"{i}:0", F32, (4, n)) for i, n in enumerate((2, 5, 1))]
    graph = region("g", [B.slice(B.concat(parts, 1), [0, begin], [1, stride], (4, size))])
    result = SimplifyMovement().run(graph).graph
    assert [n.kind.value for n in result.nodes()] == kinds
    values = random_values(graph)
    np.testing.assert_array_equal(interpret(result, values)["o0"], interpret(graph, values)["o0"])


def test_a_number_among_others_waits_for_none_of_them() -> None:
    """The counter of a loop in the begin of a slice: what is computed of it is arithmetic on single elements."""
    at = B.reshape(B.input("at:0", DType.I32, ()), (1,))
    begins = B.concat([B.constant(np.zeros(1), DType.I32), at, B.constant(np.zeros(1), DType.I32)], 0)
    graph = region("g", [B.add(B.slice(begins, [1], [1], (1,)), B.scalar_like(3, begins))])
    result = SimplifyMovement().run(graph).graph
    assert [n.kind.value for n in result.nodes()].count("concat") == 0


def test_a_slice_of_other_axes_than_a_slice_has_stays() -> None:
    split = B.reshape(B.slice(X, (1, 0), (1, 1), (2, 6)), (4, 3))
    assert kinds(SimplifyMovement(), B.slice(split, (0, 1), (1, 1), (4, 1))) == ["slice", "reshape", "slice"]


def test_nothing_of_an_axis_of_one_element_stays() -> None:
    part = B.slice(B.input("x:0", F32, (2, 3, 4)), (0, 1, 0), (1, 1, 1), (2, 1, 4))
    assert kinds(SimplifyMovement(), B.slice(part, (0, 0, 0), (1, 1, 1), (2, 0, 4))) == ["slice", "slice"]
