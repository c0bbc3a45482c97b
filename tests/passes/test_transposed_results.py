"""Matmuls whose results are read transposed exchange their operands, and values stay."""

from __future__ import annotations

import pytest

from tests.differential.runner import region
from tests.passes.kinds import same_values
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.passes.transposed_results import TransposedResults

B, F32 = Builder(), DType.F32


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_nothing_is_transposed(batch: tuple[int, ...], first: bool, second: bool) -> None:
    x = B.input("x:0", F32, (*batch, *((5, 3) if first else (3, 5))))
    y = B.input("y:0", F32, (*batch, *((4, 5) if second else (5, 4))))
    axes = range(len(batch))
    before = region("g", [B.transpose(B.dot(x, y, first, second), [*axes, len(batch) + 1, len(batch)])])
    after = TransposedResults().run(before)
    assert after.modified
    assert [n.kind for n in after.graph.nodes() if n.kind is OpKind.TRANSPOSE] == []
    same_values(before, after.graph)


def test_a_matmul_that_others_read_stays() -> None:
    x, y = B.input("x:0", F32, (3, 5)), B.input("y:0", F32, (5, 4))
    dot = B.dot(x, y)
    assert not TransposedResults().run(region("g", [B.transpose(dot, [1, 0]), B.neg(dot)])).modified
    assert not TransposedResults().run(region("g", [B.transpose(dot, [1, 0]), dot])).modified


def test_other_axes_stay() -> None:
    x, y = B.input("x:0", F32, (2, 3, 5)), B.input("y:0", F32, (2, 5, 4))
    assert not TransposedResults().run(region("g", [B.transpose(B.dot(x, y), [1, 0, 2])])).modified
