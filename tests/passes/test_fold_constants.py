"""Constants and sizes are folded, where that is no larger and changes no bit."""

from __future__ import annotations

from tests.passes.kinds import kinds
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.passes.fold_constants import FoldConstants

B, F32 = Builder(), DType.F32
X = B.input("x:0", F32, (4, 6))


def test_folding_of_constants_and_sizes() -> None:
    two = B.constant(2, F32)
    assert kinds(FoldConstants(), B.mul(X, B.add(two, two))) == ["constant", "mul"]
    assert kinds(FoldConstants(), B.mul(X, B.extent((3, 4), F32))) == ["constant", "mul"]
    assert kinds(FoldConstants(), B.mul(X, B.constant(1, F32)), B.neg(X)) == ["neg"]
    assert kinds(FoldConstants(), B.div(X, B.constant(1, F32))) == []
    assert kinds(FoldConstants(), B.exp(B.input("e:0", F32, (0, 3)))) == ["constant"]


def test_folding_leaves() -> None:
    wide = B.broadcast(B.constant(2, F32), (2000,))
    assert kinds(FoldConstants(), wide) == ["constant", "broadcast"]
    assert kinds(FoldConstants(), B.div(B.constant(1, F32), X)) == ["constant", "div"]
    assert kinds(FoldConstants(), B.mul(B.input("s:0", F32, ()), B.constant([1, 1], F32))) == ["constant", "mul"]
    assert kinds(FoldConstants(), B.add(X, B.constant(0, F32))) == ["constant", "add"], "-0 + 0 is 0"
