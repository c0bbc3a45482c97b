"""Which blocks of a matmul on a CPU, or pieces of its terms, go to how many threads (cpu/host_gemm.cc)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import tensorflow as tf

from tf_stitch.native.build import SOURCE_DIR

WANTED = """\
a row by what a core keeps: 1 of 1, 1 of 256 columns; 1 of 2, 2 of 128 columns; 1 of 8, 4 of 64 columns
a row by what memory has: 1 of 1, 16 of 48 terms; 2 of 2, 16 of 48 terms; 5 of 8, 16 of 48 terms
in halves: 1 of 1, 9 of 86 terms; 2 of 2, 9 of 86 terms; 2 of 8, 9 of 86 terms
transposed: 1 of 1, 4 of 768 columns; 2 of 2, 8 of 384 columns; 8 of 8, 32 of 96 columns
long rows: 1 of 1, 4 of 16384 columns; 2 of 2, 8 of 8192 columns; 8 of 8, 32 of 2048 columns
16 rows: 1 of 1, 1 of 768 columns; 2 of 2, 2 of 384 columns; 5 of 8, 8 of 96 columns
128 rows: 1 of 1, 2 of 256 columns; 2 of 2, 2 of 256 columns; 5 of 8, 8 of 64 columns
"""


def test_threads_share_what_memory_takes_longest_for(tmp_path: Path) -> None:
    program = tmp_path / "program"
    subprocess.run(["g++", "-std=c++17", "-O1", "-w", f"-I{SOURCE_DIR}", f"-I{tf.sysconfig.get_include()}",
                    str(Path(__file__).parent / "host_gemm_program.cc"), str(SOURCE_DIR / "cpu/host_gemm.cc"),
                    "-o", str(program), "-pthread"], check=True)  # fmt: skip
    assert subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout == WANTED
