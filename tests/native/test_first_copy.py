"""Several copies of the op library in one process (op/first_copy.h): the first serves, the others register nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.convert.models import keras_export
from tests.support.fork_server import ForkServer
from tests.support.model_loader import model_loader
from tf_stitch.config import load_config, plain_environment
from tf_stitch.convert.command import main
from tf_stitch.convert.saved_model import read_model
from tf_stitch.native.build import STITCH_OP, build_library, sources_digest
from tools.benchmark.conversion_host import run_loader

Run = Callable[..., subprocess.CompletedProcess[str]]
PROGRAM = """
import ctypes, json, sys
import tensorflow as tf
first, second, model, how = sys.argv[1:]
if how == "opened":
    ctypes.CDLL(first)
else:
    tf.load_op_library(first)
tf.load_op_library(second)
copies = [ctypes.CDLL(path) for path in (first, second)]
served = tf.saved_model.load(model).signatures["serving_default"](x=tf.ones([3, 16]))
copies[1].tfs_serving_library.restype = ctypes.c_char_p
print(json.dumps({"runs": [copy.tfs_stat(0) for copy in copies], "serves": [copy.tfs_serves() for copy in copies],
                  "serving": copies[1].tfs_serving_library().decode(), "outputs": len(served)}))
"""
ENABLED = """
import sys
import numpy as np
import tensorflow as tf
import tf_stitch
from tf_stitch.errors import NativeError
from tf_stitch.plugin import activation
tf.load_op_library(sys.argv[1])
try:
    tf_stitch.enable()
except NativeError as error:
    sys.exit(f"refused: {error}")
native = activation._native
x = tf.constant(np.arange(12, dtype=np.float32).reshape(3, 4))
call = tf.function(lambda v: tf.nn.softmax(tf.tanh(v) * 2.0 + 1.0))
for _ in range(3):
    call(x)
    tf_stitch.wait()
print(native.path, native.stats()["runs"])
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A converted one."""
    folder = tmp_path_factory.mktemp("model")
    keras_export(folder / "original")
    assert main([f"--input_dir={folder / 'original'}", f"--output_dir={folder / 'converted'}", "--nomeasure",
                 "--input_ranges=batch=3:4"]) == 0
    return folder / "converted"


@pytest.fixture
def copies(tmp_path: Path) -> list[Path]:
    library = build_library(STITCH_OP, load_config().cache_dir)
    paths = [tmp_path / name / "stitch_op.so" for name in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        shutil.copyfile(library, path)
    return paths


@pytest.fixture
def run(fork_server: ForkServer, tmp_path: Path) -> Run:
    return lambda program, *arguments: fork_server.completed(program, arguments, plain_environment(), tmp_path)


@pytest.mark.parametrize("how", ["loaded", "opened"])
def test_a_second_copy_registers_nothing_and_serves(how: str, copies: list[Path], model: Path, run: Run) -> None:
    """Beside each model a copy, or one that a program opens by itself."""
    done = run(PROGRAM, *copies, model, how)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout)
    assert said["runs"][0] > 0
    assert said["runs"][1] == said["runs"][0]  # either copy counts for both
    assert said["serves"] == [1, 0]
    assert said["serving"] == str(copies[0])
    assert "tf_stitch" not in done.stderr


def test_a_copy_that_is_there_before_the_program_serves(copies: list[Path], model: Path, tmp_path: Path) -> None:
    """By LD_PRELOAD, as of a server that cannot be told to load a library. Either copy says what the first counts."""
    signature = read_model(model.with_name("original")).chosen(["serving_default"])[0]
    np.ones((3, 16), np.float32).tofile(tmp_path / "input")
    said = run_loader(model_loader(tmp_path), copies[1], model, 2, signature.inputs[0].tensor, (3, 16),
                      tmp_path / "input", signature.outputs[0].tensor, tmp_path / "output", preloaded=copies[0])
    assert said["runs"] > 0
    assert said["fallbacks"] == 0


def test_a_program_that_stitches_runs_by_the_copy_that_it_has(copies: list[Path], run: Run) -> None:
    done = run(ENABLED, copies[0])
    assert done.returncode == 0, done.stderr[-3000:]
    path, runs = done.stdout.split()
    assert path == str(copies[0])
    assert int(runs) > 0


def test_a_copy_of_another_version_is_not_called(copies: list[Path], run: Run) -> None:
    own, other = sources_digest().encode(), b"0123456789abcdef"
    data = copies[0].read_bytes()
    assert data.count(own) == 1
    copies[0].write_bytes(data.replace(own, other))
    done = run(ENABLED, copies[0])
    assert done.returncode == 1
    assert f"refused: the program has loaded {copies[0]} before, which is of another version" in done.stderr
