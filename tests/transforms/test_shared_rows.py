"""Long rows that blocks share stay whole; others are split."""

from __future__ import annotations

import pytest

from tests.differential import patterns as p
from tests.differential.runner import region
from tf_stitch.compiler.pipeline import passes
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.pass_manager import run_passes

B, F32 = p.B, DType.F32


def reductions(device: DeviceSpec, *outputs: Node) -> int:
    graph = run_passes(region("g", list(outputs)), passes(device))
    return sum(n.category is Category.REDUCTION for n in graph.nodes())


@pytest.mark.parametrize(("rows", "cols", "count"), [
    (64, 1000, 2), (8, 100_000, 2), (64, 500_000, 2), (1, 50_000_000, 4)])
def test_rows_whose_elements_are_needed_again(rows: int, cols: int, count: int) -> None:
    """Softmax: a maximum and a sum, each in two stages where no blocks have room for the row."""
    assert reductions(H200, p.softmax(B.input("x:0", F32, (rows, cols)))) == count


def test_sums_alone_are_split() -> None:
    assert reductions(H200, B.sum(B.input("x:0", F32, (8, 100_000)), [1])) == 2


def test_rows_on_a_cpu_are_split() -> None:
    assert reductions(CPU, p.softmax(B.input("x:0", F32, (1, 1 << 20)))) == 4


def test_rows_of_a_length_that_changes_are_split() -> None:
    """How many blocks share a row is decided for its length; kernels of all lengths cannot have that."""
    x = B.input("x:0", F32, (8, size("n", 1 << 17)))
    assert reductions(H200, p.softmax(x)) == 4
