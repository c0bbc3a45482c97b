"""What the compiler says of kernels, and what is done where they spill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.differential.runner import compiled, region
from tf_stitch.atomic_file import write_verified
from tf_stitch.device.spec import H200, gpu_spec
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.occupancy import COMPILERS_CHOICE, blocks_that_fit, launch_bound
from tf_stitch.runtime import nvrtc_builder
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.kernel_resources import KernelResources, read, read_log, write
from tf_stitch.runtime.nvrtc_builder import SMALL_SPILL, build_cuda, resources_of

LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'launch_1' for 'sm_90'
ptxas info    : Function properties for launch_1
ptxas         .     240 bytes stack frame, 184 bytes spill stores, 180 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 240 bytes cumulative stack size
ptxas info    : Compile time = 53.100 ms
ptxas info    : Compiling entry function 'launch_0' for 'sm_90'
ptxas info    : Function properties for launch_0
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 25 registers, used 1 barriers, 1024 bytes smem
"""

# 96 sums under way in each thread: too many for the 64 registers that two blocks of 512 leave.
GREEDY = """
#ifndef greedy_RESIDENT
#define greedy_RESIDENT 2
#endif
extern "C" __global__ void __launch_bounds__(512, greedy_RESIDENT) greedy(const float* in, float* out, int n) {
  float sums[96];
  #pragma unroll
  for (int i = 0; i < 96; ++i) sums[i] = in[threadIdx.x * 96 + i];
  for (int step = 0; step < n; ++step) {
    #pragma unroll
    for (int i = 0; i < 96; ++i) sums[i] = sums[i] * in[step * 96 + i] + sums[(i + 1) % 96];
  }
  #pragma unroll
  for (int i = 0; i < 96; ++i) out[threadIdx.x * 96 + i] = sums[i];
}
"""


def test_the_log_is_read() -> None:
    assert read_log(LOG) == {"launch_1": KernelResources(255, 184, 240, 0), "launch_0": KernelResources(25, 0, 0, 1024)}
    assert read_log("") == {}


def test_what_was_kept_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    write_verified(path, write(read_log(LOG)))
    assert read(path) == read_log(LOG)
    path.write_text("[1, 2")
    assert read(path) == {}
    assert read(tmp_path / "nothing.json") == {}


def test_a_launch_that_spills_gets_more_registers(tmp_path: Path) -> None:
    fixed = GREEDY.replace("512, greedy_RESIDENT", "512, 2")
    [taken] = resources_of(build_cuda(fixed, "90", KernelCache(tmp_path))).values()
    assert taken.spilled_bytes > 0, "the bound reaches the compiler"
    [relaxed] = resources_of(build_cuda(GREEDY, "90", KernelCache(tmp_path))).values()
    assert relaxed.spilled_bytes == 0
    assert taken.registers <= 64 < relaxed.registers <= 128


def test_a_launch_that_spills_a_little_keeps_its_blocks(tmp_path: Path) -> None:
    [taken] = resources_of(build_cuda(GREEDY.replace("96", "56"), "90", KernelCache(tmp_path))).values()
    assert 0 < taken.spilled_bytes <= SMALL_SPILL
    assert taken.registers <= 64


def test_kernels_that_fit_are_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder()
    source = compiled(region("exp", [b.exp(b.input("x:0", DType.F32, (4, 8)))]), H200).source
    runs, compile_ = [], nvrtc_builder._compile

    def counted(*args: object) -> object:
        runs.append(args)
        return compile_(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(nvrtc_builder, "_compile", counted)
    cubin = build_cuda(source, "90", KernelCache(tmp_path))
    assert len(runs) == 1
    assert resources_of(cubin)["launch_0"].spilled_bytes == 0
    assert resources_of(build_cuda(source, "90", KernelCache(tmp_path))) == resources_of(cubin), "from the cache too"
    assert len(runs) == 1


def program(grid: int, threads: int, *body: k.Stmt) -> k.Program:
    return k.Program((), grid, threads, body)


def test_bounds_are_assumed_and_relaxed() -> None:
    """AStitch section 4.5: few registers are assumed; shared memory, or too few blocks, leave more for a thread."""
    many = 100 * H200.processors
    large = k.Array("a", DType.F32, 20_000, k.Space.SHARED, offset=0)
    row = k.Array("r", DType.F32, 48)
    assert launch_bound([program(many, 256)], H200) == COMPILERS_CHOICE, "registers alone decide"
    assert launch_bound([program(many, 256, large)], H200) == 2, "two blocks fill shared memory"
    assert launch_bound([program(3, 256)], H200) == 1
    assert launch_bound([program(5 * H200.processors, 256)], H200) == 5
    assert launch_bound([program(5 * H200.processors, 256, row)], H200) == COMPILERS_CHOICE, "that would be too few"
    assert launch_bound([program(H200.processors, 256)] * 2, H200) == 2, "packs have the blocks of all members"
    waiting = replace(program(many, 256, k.GridBarrier()), resident=3)
    assert launch_bound([waiting], H200) == 3, "all blocks must be resident, whatever it costs"


def test_at_least_one_block_fits() -> None:
    assert blocks_that_fit(1024, 255, 0, H200) == 1
    assert blocks_that_fit(32, 32, 0, H200) == 32
    smaller = gpu_spec(H200.profile, "89")
    assert [blocks_that_fit(threads, 32, 0, smaller) for threads in (32, 256, 1024)] == [24, 6, 1]
