"""Matmuls of few rows as sums: kernels interpreted, compiled, and run on a GPU where there is one, against float64."""

from __future__ import annotations

import pytest

from tests.differential.gpu_run import run_gpu
from tests.differential.runner import (
    Values,
    cache,
    check_all,
    compare,
    compiled,
    random_values,
    reference,
    region,
    run_kernel_ir,
)
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.passes import lower_gemv_to_reduction
from tf_stitch.passes.lower_gemv_to_reduction import as_sum
from tf_stitch.runtime.device_run import gpu_is_here
from tf_stitch.runtime.nvrtc_builder import build_cuda

B = Builder()
Shape = tuple[tuple[int, ...], tuple[int, ...], bool, bool]
"""Of both operands, and whether each is transposed."""
SMALL: list[Shape] = [
    ((1, 40), (40, 24), False, False), ((1, 40), (23, 40), False, True), ((40, 1), (40, 7), True, False),
    ((37, 40), (40, 1), False, False), ((40, 37), (1, 40), True, True), ((3, 1, 24), (3, 19, 24), False, True),
    ((3, 1, 19), (3, 19, 24), False, False), ((2, 33), (33, 20), False, False), ((4, 33), (20, 33), False, True),
    ((33, 4), (33, 20), True, False)]  # fmt: skip
LARGE: list[Shape] = [
    ((1, 512), (512, 512), False, False), ((1, 512), (512, 30000), False, False),
    ((1, 512), (30000, 512), False, True), ((8, 1, 64), (8, 37, 64), False, True),
    ((8, 1, 37), (8, 37, 64), False, False), ((2, 512), (512, 512), False, False),
    ((4, 512), (2048, 512), False, True), ((4, 2048), (2048, 512), False, False),
    ((1, 4097), (4097, 33), False, False)]  # fmt: skip


@pytest.fixture(autouse=True)
def all_are_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lower_gemv_to_reduction, "_is_faster", lambda matmul, times: as_sum(matmul) is not None)


def matmul(shape: Shape, dtype: DType = DType.F32) -> TensorGraph:
    """With a bias and a relu, which the same kernel computes."""
    x, w = (B.input(key, dtype, dims) for key, dims in zip("xw", shape[:2], strict=True))
    y = B.dot(x, w, *shape[2:])
    bias = B.input("b", dtype, y.type.dims[-1:])
    return region("matmul", [B.maximum(B.add(y, bias), B.constant(0, dtype))])


def built(graph: TensorGraph) -> tuple[CompiledRegion, Values]:
    compiled_region = compiled(graph, H200, solver="greedy")
    assert len(compiled_region.kernels) == 1
    assert compiled_region.calls == ()
    return compiled_region, random_values(graph)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_kernels_by_the_interpreter(shape: Shape, dtype: DType) -> None:
    graph = matmul(shape, dtype)
    compiled_region, values = built(graph)
    compare(graph, run_kernel_ir(graph, compiled_region, values), *reference(graph, values), "kernel IR")
    build_cuda(compiled_region.source, H200.architecture, cache())


def test_compiled_cpu_code() -> None:
    """What the pass makes, of all shapes, on the target that it is not made for."""
    sums = [as_sum(B.dot(*(B.input(f"{key}{i}", DType.F32, dims) for key, dims in zip("xw", shape[:2], strict=True)),
                         *shape[2:])) for i, shape in enumerate(SMALL)]  # fmt: skip
    check_all(region("sums", [one for one in sums if one is not None]), solver="greedy")
    assert None not in sums


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_is_here(), reason="no GPU")
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
@pytest.mark.parametrize("shape", SMALL + LARGE, ids=str)
def test_kernels_on_a_gpu(shape: Shape, dtype: DType) -> None:
    graph = matmul(shape, dtype)
    compiled_region, values = built(graph)
    compare(graph, run_gpu(graph, compiled_region, values, runs=2), *reference(graph, values), "H200")
