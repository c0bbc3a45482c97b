"""Matmuls by a cuBLASLt that only keeps books: what they ask of it, that they free what they made, and when they try
proposals."""

from __future__ import annotations

import subprocess
from pathlib import Path

import tensorflow as tf

from tf_stitch.native.build import SOURCE_DIR

HERE = Path(__file__).parent
WANTED = """\
loaded:
aligned: 16 16 16 16, bias 16
unaligned: 4 4 4 4, bias 4
unaligned halves: 2 2 2 2, bias 2
a: 16 4 16 16, bias 16
b: 4 16 16 16, bias 16
the addend: 16 16 4 16, bias 16
the result: 16 16 16 4, bias 16
float8: "", 16 1 2 2, scales 4 16, transposed 1 0
runs with scales 512 256: 0 more live
of other types: another
a: type 28, 64 x 32, stride 64
b: type 28, 64 x 48, stride 64
the result: type 14, 48 x 32, stride 48
cublasLtMatmulDescSetAttribute failed with status 7
refused: 0 more live
runs with a bias: 0 more live
found again: 1
of many lengths: some, then 0 more
one that is held runs: ""
1 of two proposals refused: ""
2 of two proposals refused: "cublasLtMatmul failed with status 15"
no trial: one, open
no trial: one, open
a trial: many, settled
a trial: one, settled
no trial: one, settled
"""


def test_matmuls_ask_for_their_alignment_free_what_they_made_and_are_tried_when_asked(tmp_path: Path) -> None:
    fake, program = tmp_path / "libfake.so", tmp_path / "program"
    subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", str(HERE / "fake_cublas_lt.cc"), "-o", str(fake)],
                   check=True)  # fmt: skip
    sources = [HERE / "lt_matmuls_program.cc",
               *(SOURCE_DIR / name for name in ("cuda/cublas_lt.cc", "cuda/lt_library.cc", "cuda/gpu_timer.cc"))]
    headers = (SOURCE_DIR, tf.sysconfig.get_include())
    subprocess.run(["g++", "-std=c++17", "-O1", "-w", "-ffunction-sections", "-Wl,--gc-sections",
                    *(f"-I{folder}" for folder in headers), *map(str, sources), "-o", str(program), "-ldl", "-pthread"],
                   check=True)  # fmt: skip
    said = subprocess.run([str(program), str(fake)], check=True, capture_output=True, text=True).stdout
    assert [line.rstrip() for line in said.splitlines()] == WANTED.splitlines()
