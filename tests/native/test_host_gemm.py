"""Which blocks of a matmul on a CPU, or pieces of its terms, go to how many threads (cpu/host_gemm.cc)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import tensorflow as tf

from tf_stitch.native.build import SOURCE_DIR

WANTED = """\
a row by what a core keeps: 0/1, 1 of 256 columns; 0/2, 2 of 128 columns; 0/8, 4 of 64 columns
a row by what memory has: 0/1, 16 of 48 terms; 1/2, 16 of 48 terms; 4/8, 16 of 48 terms
in halves: 0/1, 9 of 86 terms; 1/2, 9 of 86 terms; 1/8, 9 of 86 terms
transposed: 0/1, 4 of 768 columns; 1/2, 8 of 384 columns; 7/8, 32 of 96 columns
long rows: 0/1, 16 of 48 terms; 2/2, 16 of 48 terms; 14/8, 16 of 48 terms
8 rows: 0/1, 12 of 64 terms; 1/2, 12 of 64 terms; 4/8, 12 of 64 terms
16 rows: 0/1, 1 of 768 columns; 1/2, 2 of 384 columns; 4/8, 8 of 96 columns
128 rows: 0/1, 2 of 256 columns; 1/2, 2 of 256 columns; 4/8, 8 of 64 columns
"""


def test_threads_share_what_memory_takes_longest_for(tmp_path: Path) -> None:
    program = tmp_path / "program"
    subprocess.run(["g++", "-std=c++17", "-O1", "-w", f"-I{SOURCE_DIR}", f"-I{tf.sysconfig.get_include()}",
                    str(Path(__file__).parent / "host_gemm_program.cc"), str(SOURCE_DIR / "cpu/host_gemm.cc"),
                    "-o", str(program), "-pthread"], check=True)  # fmt: skip
    assert subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout == WANTED
