"""`tf_stitch hfuse` as people call it: what is wrong is said with file, line and reason; what is right is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hfuse.sources import GRID_2D, PLAIN, REDUCE
from tf_stitch.hfuse.command import FAILED, WRONG, main

LAUNCHES = ("--grid1=4", "--grid2=4", "--block1=128", "--block2=128", "--block=256")

REFUSED: dict[str, tuple[str, str, tuple[str, ...], int, str]] = {
    # A source whose kernel is `wrong`, more flags, and what is said: the line and the reason.
    "a syntax error": ("""
__global__ void wrong(float* y) {
  const int i = threadIdx.x
  y[i] = 1;
}""", "wrong", (), 3, "expected ';'"),
    "a name that is not declared, behind a macro": ("""
#define SIZE 4

__global__ void wrong(float* y) {
  y[threadIdx.x] = unknown[SIZE];
}""", "wrong", (), 5, "use of undeclared identifier 'unknown'"),
    "an include that is not there": ("""
#include "missing.h"
__global__ void wrong(float* y) { y[0] = 1; }""", "wrong", (), 2, "missing.h"),
    "a barrier of the grid": ("""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void wrong(float* y) {
  y[threadIdx.x] = 1;
  cg::this_grid().sync();
}""", "wrong", (), 6, "cooperative_groups::this_grid cannot be fused: a barrier of the whole grid"),
    "a group of the block": ("""
#include <cooperative_groups.h>
__global__ void wrong(float* y) {
  auto block = cooperative_groups::this_thread_block();
  block.sync();
}""", "wrong", (), 4, "this_thread_block cannot be fused: the block of a group is that of both kernels"),
    "clusters": ("""
__global__ void __cluster_dims__(2, 1, 1) wrong(float* y) { y[0] = 1; }""", "wrong", (), 2,
                 "__cluster_dims__ cannot be fused"),
    "a kernel that launches a kernel": ("""
__global__ void child(float* y) { y[0] = 1; }
__global__ void wrong(float* y) {
  child<<<1, 1>>>(y);
}""", "wrong", (), 4, "__global__ function 'child'"),
    "thread numbers in assembly": ("""
__global__ void wrong(int* y) {
  int r;
  asm("mov.u32 %0, %%tid.x;" : "=r"(r));
  y[r] = 1;
}""", "wrong", (), 4, "assembly with '%tid' cannot be fused"),
    "a variable of the program": ("""
__device__ int counter;
__global__ void wrong(int* y) { y[0] = atomicAdd(&counter, 1); }""", "wrong", (), 2,
                                  "counter is a variable of the program"),
    "a grid of more blocks than one dimension has": (
        "\n__global__ void wrong(float* y) { y[0] = 1; }", "wrong", ("--grid1=65536,65536",), 2, "4294967296 blocks"),
    "threads that are no whole warps": (
        "\n__global__ void wrong(float* y) { y[0] = 1; }", "wrong", ("--block1=100", "--block=228"), 2,
        "blocks of 100 threads; parts are multiples of a warp"),
    "too much static shared memory": ("""
__global__ void wrong(float* y) {
  __shared__ float small[10];
  __shared__ float large[12300];
  small[0] = large[threadIdx.x] = 1;
  y[0] = small[0];
}""", "wrong", (), 4, "49240 bytes of shared memory side by side"),
    "too much dynamic shared memory": ("""
__global__ void wrong(float* y) {
  extern __shared__ float s[];
  y[0] = s[0] = 1;
}""", "wrong", ("--dynamic_shared1=100000", "--architecture=75"), 3, "a block of sm_75 has at most 65536 in all"),
    "dynamic shared memory that the launch lacks": ("""
__global__ void wrong(float* y) {
  extern __shared__ float s[];
  y[0] = s[0] = 1;
}""", "wrong", (), 3, "its launch asks for none"),
    "dynamic shared memory that the kernel lacks": (
        "\n__global__ void wrong(float* y) { y[0] = 1; }", "wrong", ("--dynamic_shared1=64",), 2, "declares none"),
    "a template without arguments": (
        "\ntemplate <int N> __global__ void wrong(float* y) { y[0] = N; }", "wrong", (), 2, "say which, as wrong<...>"),
    "arguments of no template": (
        "\n__global__ void wrong(float* y) { y[0] = 1; }", "wrong<4>", (), 2, "wrong is no template"),
    "two definitions": (
        "\n__global__ void wrong(int* y) { y[0] = 1; }\n__global__ void wrong(float* y) { y[0] = 1; }", "wrong", (), 3,
        "several definitions (lines 2, 3)"),
}


def run(folder: Path, text: str, kernel: str, *more: str) -> int:
    """A source's kernel, fused with one that has nothing wrong."""
    (folder / "first.cu").write_text(text)
    (folder / "second.cu").write_text(PLAIN.text)
    return main(["hfuse", f"{folder}/first.cu:{kernel}", f"{folder}/second.cu:scale", *LAUNCHES, *more])


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_has_file_line_and_reason(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, kernel, more, line, reason = REFUSED[name]
    assert run(tmp_path, text, kernel, *more) == WRONG
    printed = capsys.readouterr()
    assert printed.err.startswith(f"{tmp_path}/first.cu:{line}: ")
    assert reason in printed.err
    assert printed.out == ""


FLAGS: dict[str, tuple[tuple[str, ...], str]] = {
    "a grid of nothing": (("--grid1=0",), "'0' is no size of a grid"),
    "four dimensions": (("--grid2=1,2,3,4",), "'1,2,3,4' is no size of a grid"),
    "a block that is too large": (("--block1=2048",), "2048 threads; 1024 at most"),
    "a partition that is not the kernel's": (("--partition=64",), "kernel 1 takes no blocks of 64 threads"),
    "an architecture by another name": (("--architecture=sm_90",), "a compute capability is a number"),
    "too few arguments": (("--args1=1 2",), "scale has 4 parameters, and 2 arguments are given"),
    "an unknown flag": (("--nothing",), "Unknown command line flag 'nothing'"),
}


@pytest.mark.parametrize("name", FLAGS)
def test_wrong_flags_say_what_is_wrong(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more, reason = FLAGS[name]
    assert run(tmp_path, PLAIN.text, "scale", *more) == WRONG
    assert reason in capsys.readouterr().err


def test_wrong_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, PLAIN.text, "nothing") == WRONG
    assert f"{tmp_path}/first.cu: has no kernel nothing; its kernels are scale" in capsys.readouterr().err
    assert main(["hfuse", f"{tmp_path}/none.cu:scale", f"{tmp_path}/second.cu:scale", *LAUNCHES]) == WRONG
    assert f"{tmp_path}/none.cu: cannot be read" in capsys.readouterr().err
    assert main(["hfuse", f"{tmp_path}/second.cu", *LAUNCHES]) == WRONG
    assert "two kernels are fused, as FILE:KERNEL; 1 are given" in capsys.readouterr().err
    assert main(["hfuse", f"{tmp_path}/second.cu:scale", f"{tmp_path}/second.cu:scale", "--grid2=1"]) == WRONG
    assert "--grid1 is missing" in capsys.readouterr().err
    assert run(tmp_path, PLAIN.text, "scale", f"--out={tmp_path}/first.cu/x.cu") == FAILED
    assert "cannot be written" in capsys.readouterr().err


def test_kernels_of_unequal_grids_and_blocks_are_fused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "turn.cu").write_text(GRID_2D.text)
    (tmp_path / "sums.cu").write_text(REDUCE.text)
    out = tmp_path / "out.cu"
    assert main(["hfuse", f"{tmp_path}/turn.cu:turn", f"{tmp_path}/sums.cu:sums", "--grid1=3,2", "--block1=8,8",
                 "--grid2=5", "--block2=64", "--dynamic_shared2=256", "--block=128", f"--out={out}"]) == 0
    assert "turn_sums_hfused, 6 blocks of 128 threads, 256 bytes of dynamic shared memory" in capsys.readouterr().out
    assert "blocks of 8 x 8 x 1, a grid of 3 x 2 x 1" in out.read_text()


def test_a_partition_may_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.cu").write_text(PLAIN.text)
    assert main(["hfuse", f"{tmp_path}/a.cu:scale", f"{tmp_path}/a.cu:scale", "--grid1=1000/block", "--grid2=3",
                 "--block=512", "--partition=128"]) == 0
    source = capsys.readouterr().out
    assert "threadIdx.x < 128" in source
    assert "blocks of 512 threads, 8 blocks" in source


AT_THE_END = """
import atexit, sys
from pathlib import Path
from clang import cindex

def end():
    cindex.conf = None  # as Python leaves modules
    held.clear()

atexit.register(end)
from tf_stitch.hfuse.source import parse
held = [parse(Path(sys.argv[1]), "90")]
print(len(held[0].tokens))
"""


def test_what_libclang_holds_ends_in_silence(tmp_path: Path) -> None:
    """By then its package has lost the library."""
    file = tmp_path / "kernel.cu"
    file.write_text("__global__ void kernel(float* y) { y[0] = 1; }\n")
    done = subprocess.run([sys.executable, "-c", AT_THE_END, file], capture_output=True, text=True, timeout=60)
    assert int(done.stdout) > 10
    assert done.stderr == ""
