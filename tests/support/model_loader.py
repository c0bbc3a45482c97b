"""The program that loads converted models by TensorFlow's C API (tests/convert/load_model.cc)."""

from __future__ import annotations

import shutil
from pathlib import Path

import tensorflow as tf

from tests.support.shared_cache import compiler_version, kept
from tools.benchmark.conversion_host import PROGRAM, build_loader


def model_loader(folder: Path) -> Path:
    """The program, in this folder; compiled once for all test processes."""
    parts = [PROGRAM.read_text(), tf.__version__, tf.sysconfig.get_lib(), compiler_version("g++")]
    made = folder / "load_model"
    shutil.copyfile(kept(parts, ".program", lambda: build_loader(folder).read_bytes()), made)
    made.chmod(0o700)
    return made
