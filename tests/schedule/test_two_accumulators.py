"""Rows of which a CPU's thread sums both halves at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compiler.test_template_kernels import kernel
from tests.differential import patterns as p
from tests.differential.runner import compare, compiled, random_values, reference, region, run_kernel_ir
from tests.support.whole_patterns import x
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import VerifyError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Var, var
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.schedule.two_accumulators import BYTES_AHEAD, LEAST_ROW, MOST_BYTES

B = p.B


def layernorm(rows: int, cols: int, dtype: DType = DType.F32) -> TensorGraph:
    gamma, beta = (B.input(f"{name}:0", dtype, (cols,)) for name in ("gamma", "beta"))
    return region("layernorm", [p.layernorm(x(rows, cols, dtype=dtype), gamma, beta)])


def parts(graph: TensorGraph, device: DeviceSpec = CPU) -> tuple[list[int], list[k.Prefetch]]:
    """Lengths of a kernel's passes over the row, and what it asks for."""
    body = kernel(graph, device).program.body
    return [s.var.extent for s in body if isinstance(s, k.For)], [s for s in body if isinstance(s, k.Prefetch)]


@pytest.mark.parametrize(("dtype", "ahead"), [(DType.F32, 2), (DType.F16, 3)])
def test_sums_take_both_halves_and_a_row_ahead_is_asked_for(dtype: DType, ahead: int) -> None:
    lengths, [asked] = parts(layernorm(64, 768, dtype))
    assert lengths == [384, 384, 768]
    assert (ahead - 1) * 768 * dtype.size < BYTES_AHEAD <= ahead * 768 * dtype.size
    assert asked == k.Prefetch("in0", (var(Var(k.BLOCK, 64)) + ahead) * 768, 768)



@pytest.mark.parametrize(("cols", "graph"), [
    (cols, layernorm(64, cols)) for cols in (LEAST_ROW - 2, 769, MOST_BYTES // 4 + 2)] + [
    (768, region("maximum first", [p.softmax(x(64, 768))])), (768, region("one pass", [B.sum(x(64, 768), [1])]))],
    ids=["short", "odd", "long", "maximum first", "one pass"])  # fmt: skip
def test_other_rows_are_summed_one_element_after_the_other(cols: int, graph: TensorGraph) -> None:
    lengths, asked = parts(graph)
    assert set(lengths) == {cols}
    assert not asked


def test_a_gpu_prefetches_nothing() -> None:
    assert parts(layernorm(64, 768), H200)[1] == []


def test_threads_of_a_gpu_cannot_ask() -> None:
    program = kernel(layernorm(64, 768), H200).program
    asking = replace(program, body=(k.Prefetch("in0", var(program.block), 8), *program.body))
    with pytest.raises(VerifyError, match="threads of a GPU"):
        verify_program(asking)


@pytest.mark.parametrize("cols", [LEAST_ROW, 302])
def test_they_give_the_same(cols: int) -> None:
    """By the interpreter. The differential tests run the compiled kernels."""
    graph = layernorm(5, cols)
    values = random_values(graph)
    want, allowed = reference(graph, values)
    built = compiled(graph, CPU)
    assert any(isinstance(s, k.Prefetch) for one in built.kernels for s in one.program.body)
    compare(graph, run_kernel_ir(graph, built, values), want, allowed, "kernel IR")
