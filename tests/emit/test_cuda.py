"""What emitters put around kernels: sharing, packing, and refusals."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.differential.patterns import layernorm, softmax
from tests.differential.runner import compiled, region
from tests.support.layers import layers
from tf_stitch.compiler.reverse_block_order import backwards
from tf_stitch.device.spec import CPU, H200
from tf_stitch.emit.cuda import join_cuda, render_cuda
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.cost import shared_bytes
from tf_stitch.placement.executable import DeviceLaunch, HostLaunch
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda

B = Builder()


def test_equal_kernels_are_written_once() -> None:
    graph = region("layers", layers(24))  # type: ignore[arg-type]
    cpu, gpu = compiled(graph, CPU), compiled(graph, H200)
    assert len(cpu.programs) == 1
    assert len({s.symbol for s in cpu.executable.steps if isinstance(s, HostLaunch)}) == 1
    assert len({p for members in gpu.programs.values() for p in members}) == 1


def test_blocks_of_a_size_that_changes_go_backwards(tmp_path: Path) -> None:
    """As where a kernel before went through the same tensor."""
    x = B.input("x:0", DType.F32, (size("n", 4096), 72))
    kernel, = compiled(region("backwards", [B.exp(x)]), H200).kernels
    assert build_cuda(join_cuda(render_cuda([backwards(kernel).program]).parts), "90", KernelCache(tmp_path))


def test_long_rows_take_dynamic_shared_memory() -> None:
    x = B.input("x:0", DType.F32, (4, 30000))
    e = B.exp(B.sub(x, B.reduce(OpKind.MAX, x, [1], True)))
    result = compiled(region("long", [B.div(e, B.sum(e, [1], True))]), H200)
    for kernel in result.kernels:
        assert shared_bytes(kernel.program) <= H200.shared_bytes
    step = result.executable.steps[0]
    assert isinstance(step, DeviceLaunch)
    assert step.shared_bytes == max(shared_bytes(p) for p in result.programs[step.symbol])


def test_only_memory_that_nobody_else_writes_is_said_to_be_so() -> None:
    """Compilers move loads of it to where other threads have not written yet."""
    v = B.variable("v", DType.F32, (64, 256))
    large = B.input("x:0", DType.F32, (1, 5000000))
    for graph in (region("scratch", [softmax(large)]), region("update", [], {"v": B.exp(v)})):
        for device in (H200, CPU):
            built = compiled(graph, device)
            for program in (program for programs in built.programs.values() for program in programs):
                for b in program.parameters:
                    alone = re.search(rf"restrict(__)? {b.name}[,)]|restrict {b.name} =", built.source) is not None
                    assert alone == (b.mode in (k.Mode.READ, k.Mode.WRITE)), b


@pytest.mark.parametrize("shape", [(64, 256), (8, 30000), (1, 5000000)])
def test_kernels_wait_for_others_before_they_touch_memory(shape: tuple[int, int]) -> None:
    """But for loads where they stand, of what is there before (tfs_early): ptxas moves those of what is taken for
    constant (ld.global.nc); (1, 5000000) is a cooperative launch."""
    x = B.input("x:0", DType.F32, shape)
    gamma, beta = (B.input(f"{name}:0", DType.F32, shape[1:]) for name in ("gamma", "beta"))
    code = ptx(compiled(region("rows", [softmax(x), layernorm(x, gamma, beta)]), H200).source, "90")
    kernels = code.split(".entry ")[1:]
    assert kernels
    for kernel in kernels:
        before, after = kernel.split("griddepcontrol.wait;")
        assert not re.search(r"\b(st|atom|red|cp)\.(?!param)|\bld\.(?!param|global\.(v[24]\.)?u32)", before)
        assert "ld.global" in kernel
        assert "ld.global.nc" not in after
        assert not re.search(r"\bld\.(?!(acquire\.gpu\.)?global|shared|local)", after), "an address of no known space"


def test_kernels_of_older_devices_do_not_wait() -> None:
    x = B.input("x:0", DType.F32, (64, 256))
    code = ptx(compiled(region("rows", [softmax(x)]), H200).source, "80")
    assert ".entry " in code
    assert "griddepcontrol" not in code


def ptx(source: str, architecture: str) -> str:
    nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc")
    program = nvrtc.createProgram(source, "test.cu", [], [])
    nvrtc.compileProgram(program, [f"-arch=compute_{architecture}", "--std=c++17",
                                   "--device-as-default-execution-space"])  # fmt: skip
    return bytes(nvrtc.getPTX(program)).decode()


@pytest.mark.parametrize(("rows", "wide"), [(30000, False), (70000, True)])
def test_positions_beyond_32_bits_without_a_large_buffer(rows: int, wide: bool) -> None:
    positions = B.positions((rows, 70000), DType.I64)
    graph = region("positions", [B.reduce(OpKind.MAX, B.mul(positions, B.input("x:0", DType.I64, (rows, 1))), [1])])
    source = compiled(graph, H200, solver="greedy").source
    assert ("const int64_t block = " in source, "const int block = " in source) == (wide, not wide)
