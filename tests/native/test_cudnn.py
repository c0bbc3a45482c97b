"""Convolutions by a cuDNN that only keeps books: what they ask of it, which of its proposals they take, that they free
what they made, and when they try proposals."""

from __future__ import annotations

import subprocess
from pathlib import Path

import tensorflow as tf

from tf_stitch.native.build import SOURCE_DIR

HERE = Path(__file__).parent
WANTED = """\
loaded:
image: 4 8 9 10 at 720 1 80 8, aligned to 16
filter: 16 4 3 2 at 24 1 8 4, aligned to 16
result: 4 16 5 9 at 720 1 144 16, aligned to 4
1 x 1, 2 x 1, 1 x 0, 1 x 0 along 2 axes
image: 2 8 7 9 10 at 5040 1 720 80 8, aligned to 16
filter: 16 8 2 3 2 at 96 1 48 16 8, aligned to 16
result: 2 16 6 5 9 at 4320 1 720 144 16, aligned to 16
1 x 1 x 1, 1 x 2 x 1, 0 x 1 x 0, 0 x 1 x 0 along 3 axes
3 arguments
refused: a convolution's sizes are of different axes
refused: a convolution of 1 axes
refused: channels of a convolution do not fall into its groups
arguments of pass 0: 0 1 2
arguments of pass 1: 2 1 0
arguments of pass 2: 0 2 1
4 arguments
operation 13: 0=0 1=0 751:5 752:3 753:2
bias: 1 16 1 1 16 1 16 16, aligned to 2; type 2, on the way 0; arguments: 0 1 3 2
refused: only a bias follows a convolution, and then more
refused: only a bias follows a convolution, and then more
5 arguments
operation 13: 0=0 1=0 751:5 752:4 753:6
operation 13: 0=0 1=0 751:6 752:3 753:7
operation 13: 0=100 1=0 751:7 753:2
bias: 1 16 1 1 16 1 16 16, aligned to 2; type 2, on the way 0; arguments: 0 1 4 2 3
refused: only a bias follows a convolution, and then more
refused: only a bias follows a convolution, and then more
refused: a convolution with this activation
the first one with a kernel: 1 with 0 bytes
the first deterministic one: 2 with 0 bytes
not one of fewer bits: 3 with 0 bytes
which halves do not mind: 2 with 0 bytes
one that takes TF32: 3 with 0 bytes
none of that: 4 with 0 bytes
where all need more than there is, the least: 3 with 2000 bytes
one that fits: 2 with 1000 bytes
cuDNN has no kernel for a convolution of 16 x 9 x 10 x 8 by 16 filters of 3 x 2
one for anything: 2 with 1000 bytes
cuDNN has no kernel for a convolution of 21 x 9 x 10 x 8 by 16 filters of 3 x 2 and what follows it
cuDNN has no convolutions of this type
runs: 0 more live
found again: 1
of many batches: some, then 0 more
one that is held runs: ""
until it is settled: 400 bytes
1 refused: ""
4 refused: "cudnnBackendExecute failed with status 5000"
no trial: one, open
a trial: many, settled
a trial: one, settled
of 1048576 bytes: 262144, ample: 67108864
of 3221225472 bytes: 33554432, ample: 134217728
where others take 1.05 times as long, 0 of ample memory: 300 bytes
where others take 1.05 times as long, 5000 of ample memory: 300 bytes
where others take 1.50 times as long, 0 of ample memory: 300 bytes
where others take 1.50 times as long, 5000 of ample memory: 4000 bytes
"""


def test_convolutions_ask_for_what_they_are_free_what_they_made_and_are_tried_when_asked(tmp_path: Path) -> None:
    fake, program = tmp_path / "libfake.so", tmp_path / "program"
    subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", str(HERE / "fake_cudnn.cc"), "-o", str(fake)], check=True)
    sources = [HERE / "convolutions_program.cc",
               *(SOURCE_DIR / name for name in (
                   "cuda/cudnn.cc", "cuda/convolution_graph.cc", "cuda/cudnn_library.cc", "cuda/cudnn_handles.cc",
                   "cuda/cudnn_plans.cc", "cuda/gpu_timer.cc"))]
    headers = (SOURCE_DIR, tf.sysconfig.get_include())
    subprocess.run(["g++", "-std=c++17", "-O1", "-w", "-ffunction-sections", "-Wl,--gc-sections",
                    *(f"-I{folder}" for folder in headers), *map(str, sources), "-o", str(program), "-ldl", "-pthread"],
                   check=True)  # fmt: skip
    said = subprocess.run([str(program), str(fake)], check=True, capture_output=True, text=True).stdout
    assert [line.rstrip() for line in said.splitlines()] == WANTED.splitlines()
