"""Equal nodes are merged, others kept."""

from __future__ import annotations

from tests.differential.runner import region
from tests.passes.kinds import kinds
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.passes.cse import EliminateCommonSubexpressions

B, F32 = Builder(), DType.F32
X = B.input("x:0", F32, (4, 6))


def test_cse_merges_equal_nodes() -> None:
    assert kinds(EliminateCommonSubexpressions(), B.add(B.exp(X), B.exp(X))) == ["exp", "add"]
    assert kinds(EliminateCommonSubexpressions(), B.constant([1, 2], F32), B.constant([1, 2], F32)) == ["constant"]


def test_cse_keeps_what_differs() -> None:
    assert kinds(EliminateCommonSubexpressions(), B.sum(X, [0]), B.sum(X, [1])) == ["sum", "sum"]
    assert kinds(EliminateCommonSubexpressions(), B.constant(1, F32), B.constant(1, DType.I32)) == ["constant",
                                                                                                    "constant"]
    assert kinds(EliminateCommonSubexpressions(), B.constant(0.0, F32), B.constant(-0.0, F32)) == ["constant",
                                                                                                   "constant"]


def test_cse_keeps_every_assign() -> None:
    y = B.exp(X)
    graph = region("g", [], {"v": y, "w": y})
    assert len(EliminateCommonSubexpressions().run(graph).graph.outputs) == 2
