"""Programs that share blocks by their threads, on a GPU: equal to those alone, to the last bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.differential.gpu_run import run_gpu
from tests.differential.redzones import Guarded
from tests.differential.runner import cache, random_values
from tests.kernel_ir.test_thread_ranges import PAIRS, Memory, both, equal, made, memory_of, random_partition
from tests.support.numbers import set_numbers
from tf_stitch.compiler.partition_search import partitions_to_time
from tf_stitch.compiler.program_times import ProgramTimer
from tf_stitch.device.spec import H200
from tf_stitch.emit.cuda import emit_cuda
from tf_stitch.emit.rendered import Packed
from tf_stitch.kernel_ir.cost import shared_bytes
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.kernel_ir.thread_ranges import side_by_side
from tf_stitch.runtime.device_run import bind_launch, gpu_is_here
from tf_stitch.runtime.nvrtc_builder import build_cuda

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_is_here(), reason="no GPU")]
RUNS = 5


def check(*programs: Program) -> None:
    import cupy

    fused = side_by_side(programs)
    every = [*programs, fused]
    named = [(f"stitch_{i}", program) for i, program in enumerate(every)]
    source = emit_cuda(named, [Packed(f"launch_{i}", (i,)) for i in range(len(every))])
    module = cupy.RawModule(path=str(build_cuda(source, H200.architecture, cache())))

    def run(number: int, memory: Memory) -> Memory:
        program, guarded = every[number], Guarded()
        held = {name: guarded.hold(name, value.view(np.uint8)) for name, value in memory.items()}
        addresses = [int(array.data.ptr) for array in held.values()]
        bind_launch(module, f"launch_{number}", program.grid, program.threads, shared_bytes(program), addresses)()
        cupy.cuda.Device().synchronize()
        guarded.check()
        return {name: array.get() for name, array in held.items()}

    memories = [memory_of(program, i) for i, program in enumerate(programs, 1)]
    want = both([run(i, memory) for i, memory in enumerate(memories)])
    for _ in range(RUNS):
        assert equal(run(len(programs), both(memories)), want)


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_pairs(pair: tuple[str, str]) -> None:
    check(*map(made, pair))


@pytest.mark.parametrize("seed", range(16))
def test_random_pairs(seed: int) -> None:
    check(*(kernel.program for kernel in random_partition(seed, 2).kernels))


@pytest.mark.parametrize("seed", range(100, 106))
def test_random_sets_of_three(seed: int) -> None:
    check(*(kernel.program for kernel in random_partition(seed, 3).kernels))


def test_a_region_with_a_measured_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two launches are timed, and become one if a record says so, also in blocks of their family's other sizes."""
    from tests.compiler import test_horizontal_fusion as fusion

    set_numbers(monkeypatch, H200, "sizes", packed_elements=256)
    graph = fusion.two_kernels()
    apart, values = fusion.built(graph), random_values(graph)
    (pair,) = fusion.pairs(apart)
    timer = ProgramTimer(H200, 0, cache())
    assert 0.5 < timer.apart([kernel.program for kernel in pair]) < 1000
    assert 0.5 < timer([partitions_to_time(pair, H200)[0].program])[0] < 1000
    together = fusion.built(graph, fusions=fusion.fusions(tmp_path, graph, 12.0))
    assert len(fusion.launches(together)) == 1
    assert fusion.same(run_gpu(graph, together, values), run_gpu(graph, apart, values))
