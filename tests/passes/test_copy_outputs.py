"""Outputs that are other values are copied by kernels."""

from __future__ import annotations

from tests.differential.runner import region
from tests.passes.kinds import kinds
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.passes.copy_outputs import CopyOutputs

B, F32 = Builder(), DType.F32
X = B.input("x:0", F32, (4, 6))


def test_outputs_that_are_other_values_are_copied_by_kernels() -> None:
    y = B.exp(X)
    assert kinds(CopyOutputs(), X, y, y) == ["cast", "exp", "cast"]
    matmul = B.dot(X, B.input("w:0", F32, (6, 5)))
    assert kinds(CopyOutputs(), matmul, B.reshape(matmul, (20,))) == ["dot", "reshape", "cast"]


def test_outputs_of_their_own_stay() -> None:
    y = B.exp(X)
    assert kinds(CopyOutputs(), y, B.neg(y)) == ["exp", "neg"]
    assigned = region("g", [y], {"v": y})
    assert not CopyOutputs().run(assigned).modified, "the variable and the output: buffers decide who copies"
