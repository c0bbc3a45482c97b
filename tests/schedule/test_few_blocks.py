"""Loops of few blocks load much together."""

from __future__ import annotations

from functools import reduce

import pytest

from tests.differential.patterns import B
from tests.differential.runner import check_all, compiled, region
from tf_stitch.device.spec import H200
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.walk import statements
from tf_stitch.schedule.few_blocks import FEW_BLOCKS, few_blocks


def likeliest(rows: int, columns: int = 50257) -> TensorGraph:
    return region("likeliest", [B.arg_reduce(OpKind.ARGMAX, B.input("x:0", DType.F32, (rows, columns)), 1, DType.I64)])


def together(graph: TensorGraph) -> list[int]:
    kernel, = compiled(graph, H200).kernels
    return [s.together for s in statements(kernel.program.body) if isinstance(s, k.For) and s.loop is k.Loop.SERIAL]


@pytest.mark.parametrize(("rows", "steps"), [(1, 16), (FEW_BLOCKS * H200.processors, 16), (4096, k.TOGETHER)])
def test_a_thread_of_few_blocks_loads_more(rows: int, steps: int) -> None:
    assert together(likeliest(rows)) == [steps]


def test_no_branch_keeps_loads_from_being_under_way_together() -> None:
    """Where the row ends is apart, and its load stands before the loop."""
    kernel, = compiled(likeliest(1), H200).kernels
    loads = [s for s in statements(kernel.program.body) if isinstance(s, k.Let) and isinstance(s.value, k.Load)]
    behind = [s for branch in statements(kernel.program.body) if isinstance(branch, k.If)
              for s in statements(branch.body) if s in loads]
    assert (len(loads), len(behind)) == (2, 0)


def test_tensors_share_what_is_loaded() -> None:
    first, *others = (B.input(f"x{i}:0", DType.F32, (1, 50257)) for i in range(5))
    total = reduce(B.add, others, first)
    assert together(region("likeliest", [B.arg_reduce(OpKind.ARGMAX, total, 1, DType.I64)])) == [8]


def test_grids_that_change_are_not_known_to_be_few() -> None:
    assert few_blocks(1, H200)
    assert not few_blocks(size("n", 1), H200)


def test_the_first_of_equals_is_found() -> None:
    check_all(likeliest(2, 20011))
