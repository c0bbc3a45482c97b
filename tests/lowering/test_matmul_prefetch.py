"""A matmul's second operand is on its way before its launch awaits others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.differential.runner import build_cubin, random_values, reference, region
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tests.support.stitched_matmuls import B, compiled_stitched, row, silu, x
from tf_stitch.errors import VerifyError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.dependencies import read_before
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.lowering.matmul_prefetch import prefetch_before_dependencies
from tf_stitch.lowering.rows_before_dependencies import LINE_BYTES
from tf_stitch.passes.matmuls_to_kernels import in_kernel

F32, BF16 = DType.F32, DType.BF16


def layer(dtype: DType, rows: int = 16, terms: int = 264, columns: int = 40) -> TensorGraph:
    matmul = in_kernel(B.dot(x("a", dtype, rows, terms), x("w", dtype, terms, columns)))
    return region("layer", [silu(B.add(matmul, row(x("bias", dtype, columns), matmul)))])


def program(graph: TensorGraph) -> k.Program:
    return compiled_stitched(graph).kernels[0].program


def names(found: k.Program) -> dict[str, str]:
    return {b.note: b.name for b in found.buffers}


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("rows", [16, 24])
def test_gives_the_same(dtype: DType, rows: int) -> None:
    """Whether stages come as soon as they are asked for or as late as they may."""
    graph = layer(dtype, rows)
    built = compiled_stitched(graph)
    own, = (p for found in built.programs.values() for p in found)
    assert any(isinstance(s, k.MatmulPrefetch) for s in own.body), "inputs of a region are there before it begins"
    values = random_values(graph)
    wanted = reference(graph, values)[0]
    for order in (Order.AHEAD, Order.BEHIND):
        got = run_on_cpu(graph, built, values, Adversary(order))
        for key, value in wanted.items():
            np.testing.assert_allclose(got[key].astype(np.float64), value.astype(np.float64), rtol=0,
                                       atol=3e-2 * max(np.abs(value).max(), 1))
    build_cubin(built)


def test_only_what_nobody_writes_is_read_before() -> None:
    found = program(layer(F32))
    weights, bias, a = (next(b.name for b in found.buffers if b.size == size) for size in (264 * 40, 40, 16 * 264))
    assert prefetch_before_dependencies(found, {bias}) is found
    assert read_before(prefetch_before_dependencies(found, {weights, bias})) == {weights}
    assert a not in read_before(prefetch_before_dependencies(found, {weights, bias, a}))


def test_what_results_are_finished_with_comes_to_the_cache() -> None:
    """Every line of it, by some thread, and nothing behind it."""
    found = program(layer(F32, columns=72))
    bias = next(b for b in found.buffers if b.size == 72)
    weights = next(b.name for b in found.buffers if b.size == 264 * 72)
    early = prefetch_before_dependencies(found, {weights, bias.name})
    line, hint = early.body[-5:-3]
    assert isinstance(line, k.LetIndex)
    assert isinstance(hint, k.Prefetch)
    asked = {hint.index.value({line.var: min(thread, line.limit or 0)}) for thread in range(found.threads)}
    assert {at * 4 // LINE_BYTES for at in asked} == {0, 1, 2}
    assert max(asked) < bias.size


def test_two_matmuls_or_waits_stay() -> None:
    found = program(layer(F32))
    weights = {b.name for b in found.buffers if b.mode is k.Mode.READ}
    early = prefetch_before_dependencies(found, weights)
    assert prefetch_before_dependencies(early, weights) is early
    looped = replace(found, body=(k.GridLoop(found.grid, found.body),))
    assert prefetch_before_dependencies(looped, weights) is looped


def test_a_prefetch_needs_its_matmul() -> None:
    found = program(layer(F32))
    early = prefetch_before_dependencies(found, {b.name for b in found.buffers if b.mode is k.Mode.READ})
    verify_program(early)
    alone = tuple(replace(s, ahead=False) if isinstance(s, k.Matmul) else s for s in early.body)
    with pytest.raises(VerifyError, match="no matmul waits for the prefetch"):
        verify_program(replace(early, body=alone))
    with pytest.raises(VerifyError, match="blocks share a matmul in clusters of"):
        verify_program(replace(found, cluster=8, grid=found.grid * 8))
