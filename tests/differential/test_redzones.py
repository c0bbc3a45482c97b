"""Zones around buffers: what lies where, and that a write into one is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.redzones import Guarded, RedzoneError, arguments, spread
from tests.differential.runner import compare, compiled, random_values, reference, region, run_kernel_ir
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.device.spec import H200
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.placement.executable_format import Space
from tf_stitch.runtime.device_run import gpu_is_here


def split_column_sums() -> tuple[TensorGraph, CompiledRegion]:
    """Sums over many rows, in two launches with values of several sizes between."""
    outputs = [p.B.sum(p.B.input(f"x{i}:0", DType.F32, (3000, 8 + i)), [0]) for i in range(3)]
    graph = region("sums", outputs)
    return graph, compiled(graph, H200, solver="greedy", barriers=False)


def test_values_of_the_arena_lie_apart() -> None:
    graph, built = split_column_sums()
    used = {ref.index: nbytes for ref, nbytes in arguments(built) if ref.space is Space.ARENA}
    assert len(used) > 1
    executable, gaps = spread(built, 512)
    assert len(gaps) == len(used) + 1
    apart = replace(built, executable=executable)
    for ref, nbytes in arguments(apart):
        if ref.space is Space.ARENA:
            assert any(end == ref.index for _, end in gaps)
            assert any(begin == ref.index + nbytes for begin, _ in gaps)
    assert all(end - begin >= 512 for begin, end in gaps)
    values = random_values(graph)
    compare(graph, run_kernel_ir(graph, apart, values), *reference(graph, values), "spread arena")


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_is_here(), reason="no GPU")
@pytest.mark.parametrize("offset", [-1, 100])
def test_a_byte_beside_a_buffer_is_found(offset: int) -> None:
    import cupy
    guarded = Guarded(zone=256)
    memory = guarded.allocate(100)
    other = guarded.hold("other", np.zeros(7, np.float32))
    guarded.check()
    cupy.cuda.runtime.memset(memory.data.ptr + offset, 0, 1)
    with pytest.raises(RedzoneError, match="buffer 0: 1 bytes"):
        guarded.check()
    assert not other.get().any()
