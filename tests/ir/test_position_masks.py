"""Masks of positions along an axis."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential import patterns as p
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.position_masks import offsets_from, position_of, within

B = p.B
AT = B.input("at", DType.I32, (1,))


@pytest.mark.parametrize("size", [1, 3])
def test_within(size: int) -> None:
    mask = interpret(TensorGraph("g", [("o0", within(B, offsets_from(B, 7, AT), size))]),
                     {"at": np.array([2], np.int32)})["o0"]
    assert np.flatnonzero(mask).tolist() == list(range(2, 2 + size))


def test_one_position_is_known_again() -> None:
    mask = within(B, offsets_from(B, 7, AT), 1)
    assert position_of(mask) is AT
    assert position_of(B.reshape(mask, (1, 7, 1))) is AT


@pytest.mark.parametrize("mask", [
    within(B, offsets_from(B, 7, AT), 2), B.input("m", DType.BOOL, (7,)),
    within(B, offsets_from(B, 7, B.input("many", DType.I32, (7,))), 1),
    within(B, B.input("offsets", DType.I32, (7,)), 1)], ids=["two", "any", "many", "offsets"])
def test_others_are_not(mask: Node) -> None:
    assert position_of(mask) is None
