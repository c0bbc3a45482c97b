"""Columns of which two rows are loaded before either is stored have all rows, and the sums of all."""

from __future__ import annotations

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compare, compiled, random_values, reference, region, run_kernel_ir
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tf_stitch.device.spec import H200
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.walk import statements
from tf_stitch.passes.two_stage_reductions import TwoStageReductions

B = p.B


@pytest.mark.parametrize("length", [512, 620, 640, 700])
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16], ids=lambda d: d.value)
def test_all_rows_are_stored_and_summed(length: int, dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block takes 128 rows at a time: pairs of those leave a part of as many, as many, or more."""
    monkeypatch.setattr(TwoStageReductions, "parts", lambda *_: 1)
    value = B.mul(B.input("x:0", dtype, (length, 8)), B.input("y:0", dtype, (length, 8)))
    graph = region("g", [B.sum(B.cast(value, DType.F32), [0]), B.op(OpKind.ABS, value)])
    result, values = compiled(graph, H200), random_values(graph)
    assert any(isinstance(s, k.For) and s.var.name == "turn"
               for kernel in result.kernels for s in statements(kernel.program.body))
    want, allowed = reference(graph, values)
    compare(graph, run_kernel_ir(graph, result, values), want, allowed, "kernel IR")
    compare(graph, run_on_cpu(graph, result, values, Adversary(Order.SHUFFLED)), want, allowed, "CUDA on a CPU")
