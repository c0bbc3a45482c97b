"""Whether a library takes a call, before anything runs it: the words that Python asks with, read by the native op."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import tensorflow as tf

from tests.libraries.test_attention import attention_nodes, call_of
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.jit.libraries import words_of
from tf_stitch.native.build import SOURCE_DIR

CALL = call_of(attention_nodes(DType.BF16)[OpKind.ATTENTION])


def test_calls_are_made_in_the_context_of_a_device(tmp_path: Path) -> None:
    program = tmp_path / "program"
    sources = [Path(__file__).with_name("call_trial_program.cc"), SOURCE_DIR / "cuda/call_trial.cc",
               SOURCE_DIR / "op/executable.cc"]
    headers = (SOURCE_DIR, tf.sysconfig.get_include())
    subprocess.run(["g++", "-std=c++17", "-O0", "-w", *(f"-I{folder}" for folder in headers), *map(str, sources), "-o",
                    str(program)], check=True)  # fmt: skip

    takes, refuses = words_of(CALL), words_of(replace(CALL, batch=1))
    asked: list[tuple[int, Sequence[int]]] = [
        (0, takes), (0, takes), (0, takes), (1, takes), (0, refuses), (2, takes), (0, takes[:-1])]
    lines = "".join(" ".join(map(str, (device, *words))) + "\n" for device, words in asked)
    lines += "".join("load " + " ".join(map(str, (device, *words))) + "\n" for device, words in asked[2:])
    said = subprocess.run([str(program)], input=lines, check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == [
        '"no CUDA driver", 0 retained, 0 made', '"", 1 retained, 1 made', '"", 1 retained, 2 made',
        '"", 2 retained, 3 made', '"no kernel", 2 retained, 4 made',
        '"cuDevicePrimaryCtxRetain failed", 3 retained, 4 made', '"ends before operand", 3 retained, 4 made',
        '"", 3 retained, 4 made', '"", 3 retained, 4 made', '"", 3 retained, 4 made',
        '"cuDevicePrimaryCtxRetain failed", 4 retained, 4 made', '"ends before operand", 4 retained, 4 made']
