"""Attentions by a cuDNN that only keeps books: the graphs that they ask of it, where what a run reads and writes lies,
and what they refuse. Numbers are cudnn_graph.h's: of kinds of descriptors (19 a matmul, 13 an operation on elements, 22
a reduction, 31 a reshape), of attributes, and of modes (0 a sum, 1 a multiplication, 6 a quotient, 9 a difference, 13
exp, 15 log, 21 itself, 303 not less, 501 an index, 601 a selection; of reductions 0 a sum, 3 the largest)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from tf_stitch.native.build import SOURCE_DIR

HERE = Path(__file__).parent


def test_attentions_ask_for_the_graphs_that_kernels_are_found_by(
        tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    fake, program = tmp_path / "libfake.so", tmp_path / "program"
    subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", str(HERE / "fake_cudnn.cc"), "-o", str(fake)], check=True)
    sources = [HERE / "attentions_program.cc", *(SOURCE_DIR / f"cuda/{name}.cc" for name in (
        "cudnn_attention", "attention_graph", "cudnn_library", "cudnn_handles", "cudnn_plans"))]
    headers = (SOURCE_DIR, tf.sysconfig.get_include())
    subprocess.run(["g++", "-std=c++17", "-O1", "-w", "-ffunction-sections", "-Wl,--gc-sections",
                    *(f"-I{folder}" for folder in headers), *map(str, sources), "-o", str(program), "-ldl", "-pthread"],
                   check=True)  # fmt: skip
    said = subprocess.run([str(program), str(fake)], check=True, capture_output=True, text=True).stdout
    golden("cudnn_attentions", said)
