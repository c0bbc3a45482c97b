"""Comparisons of positions that are the same everywhere."""

from __future__ import annotations

import pytest

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Var, var
from tf_stitch.lowering.decided import decided

K = OpKind
AT = k.FromIndex(var(Var("i", 10)) + 5, DType.I32)
"""From 5 to 14."""


@pytest.mark.parametrize(("kind", "limit", "expected"), [
    (K.LESS, 15, True), (K.LESS, 14, None), (K.LESS, 6, None), (K.LESS, 5, False),
    (K.LESS_EQUAL, 14, True), (K.LESS_EQUAL, 13, None), (K.LESS_EQUAL, 5, None), (K.LESS_EQUAL, 4, False),
    (K.GREATER, 4, True), (K.GREATER, 5, None), (K.GREATER, 13, None), (K.GREATER, 14, False),
    (K.GREATER_EQUAL, 5, True), (K.GREATER_EQUAL, 6, None), (K.GREATER_EQUAL, 14, None), (K.GREATER_EQUAL, 15, False),
    (K.EQUAL, 20, None), (K.ADD, 1, None)])
def test_bounds_decide(kind: OpKind, limit: int, expected: bool | None) -> None:
    assert decided(kind, (AT, k.Literal(limit, DType.I32))) is expected


def test_values_do_not() -> None:
    assert decided(K.LESS, (k.Local("v", DType.I32), k.Literal(3, DType.I32))) is None
    assert decided(K.LESS, (AT, k.Literal(30.0, DType.F32))) is None
