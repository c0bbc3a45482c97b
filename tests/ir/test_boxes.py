"""Boxes of a tensor behind slices and reshapes."""

from __future__ import annotations

import pytest

from tests.differential import patterns as p
from tf_stitch.ir.boxes import Box, box_of, whole
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node

B = p.B
X = B.input("x", DType.F32, (4, 3, 5, 1, 2))


def part(x: Node, begin: list[int], sizes: tuple[int, ...], strides: list[int] | None = None) -> Node:
    return B.slice(x, begin, strides or [1] * len(begin), sizes)


LAYER = B.reshape(part(X, [2, 0, 0, 0, 0], (1, 3, 5, 1, 2)), (3, 5, 2))


@pytest.mark.parametrize(("node", "box"), [
    (X, Box((0,) * 5, (4, 3, 5, 1, 2))),
    (part(X, [1, 0, 2, 0, 0], (2, 3, 1, 1, 2)), Box((1, 0, 2, 0, 0), (2, 3, 1, 1, 2))),
    (LAYER, Box((2, 0, 0, 0, 0), (1, 3, 5, 1, 2))),
    (part(LAYER, [1, 4, 0], (2, 1, 2)), Box((2, 1, 4, 0, 0), (1, 2, 1, 1, 2))),
    (B.reshape(part(LAYER, [1, 0, 1], (1, 5, 1)), (5,)), Box((2, 1, 0, 0, 1), (1, 1, 5, 1, 1))),
    (B.reshape(X, (12, 10)), Box((0,) * 5, (4, 3, 5, 1, 2))),
    (part(B.reshape(X, (12, 10)), [0, 0], (2, 10)), None),
    (part(X, [0] * 5, (2, 3, 5, 1, 2), [2, 1, 1, 1, 1]), None),
    (B.exp(X), None),
    (B.transpose(X, [1, 0, 2, 3, 4]), None),
])
def test_box_of(node: Node, box: Box | None) -> None:
    assert box_of(node, X) == box


def test_axes_are_those_of_more_than_one_element() -> None:
    box = whole(X).part(1, 2, 1)
    assert box == Box((0, 2, 0, 0, 0), (4, 1, 5, 1, 2))
    assert box.axes((4, 1, 1, 5, 2)) == [0, -1, -1, 2, 4]
    assert box.axes((4, 10)) is None
    assert box.axes((5, 4, 2)) is None
