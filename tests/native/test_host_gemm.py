"""Which blocks of a matmul on a CPU go to how many threads (cpu/host_gemm.cc)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import tensorflow as tf

from tf_stitch.native.build import SOURCE_DIR

WANTED = """\
a row by what a core keeps: 1 of 1, 1 blocks of 256; 1 of 2, 2 blocks of 128; 1 of 8, 4 blocks of 64
a row by what memory has: 1 of 1, 1 blocks of 768; 2 of 2, 2 blocks of 384; 5 of 8, 8 blocks of 96
in halves: 1 of 1, 1 blocks of 768; 2 of 2, 2 blocks of 384; 2 of 8, 8 blocks of 96
transposed: 1 of 1, 4 blocks of 768; 2 of 2, 8 blocks of 384; 8 of 8, 32 blocks of 96
long rows: 1 of 1, 4 blocks of 16384; 2 of 2, 8 blocks of 8192; 8 of 8, 32 blocks of 2048
16 rows: 1 of 1, 1 blocks of 768; 2 of 2, 2 blocks of 384; 5 of 8, 8 blocks of 96
128 rows: 1 of 1, 2 blocks of 256; 2 of 2, 2 blocks of 256; 5 of 8, 8 blocks of 64
"""


def test_threads_share_what_memory_takes_longest_for(tmp_path: Path) -> None:
    program = tmp_path / "program"
    subprocess.run(["g++", "-std=c++17", "-O1", "-w", f"-I{SOURCE_DIR}", f"-I{tf.sysconfig.get_include()}",
                    str(Path(__file__).parent / "host_gemm_program.cc"), str(SOURCE_DIR / "cpu/host_gemm.cc"),
                    "-o", str(program), "-pthread"], check=True)  # fmt: skip
    assert subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout == WANTED
