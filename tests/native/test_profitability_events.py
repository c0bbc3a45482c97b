"""CUDA events of the profitability check, by a driver that only keeps books: they go when it has decided, or is
gone itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import tensorflow as tf

from tf_stitch.native.build import SOURCE_DIR

WANTED = """\
a few calls: 0 live, then 0
not decided: 2 live, then 0
decided: 0 live, then 0
one event to be had: 1 live, then 0
"""


def test_events_go_with_a_check_that_has_not_decided(tmp_path: Path) -> None:
    program = tmp_path / "program"
    sources = [Path(__file__).with_name("profitability_events_program.cc"), SOURCE_DIR / "op/profitability_check.cc"]
    headers = (SOURCE_DIR, tf.sysconfig.get_include())
    subprocess.run(["g++", "-std=c++17", "-O0", "-w", *(f"-I{folder}" for folder in headers), *map(str, sources),
                    "-o", str(program), "-pthread"], check=True)  # fmt: skip
    said = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == WANTED.splitlines()
