"""Modules go with what runs their kernels (op/loaded_modules.h): a server loads versions of its models for months."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.convert.models import keras_export
from tests.convert.versions import version
from tests.support.fork_server import ForkServer
from tests.support.tiers import each_commit
from tf_stitch.config import load_config, plain_environment
from tf_stitch.convert.command import main
from tf_stitch.native.build import STITCH_OP, build_library

PROGRAM = Path(__file__).parents[1] / "convert" / "reload_versions.py"
WARM = 5
"""Versions after which TensorFlow has what it keeps for good."""
A_VERSION = 600_000
"""Bytes that a version may leave: TensorFlow leaves some 0.4 MB of each SavedModel, also of the original's (2.21)."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A converted one."""
    folder = tmp_path_factory.mktemp("model")
    keras_export(folder / "original")
    assert main([f"--input_dir={folder / 'original'}", f"--output_dir={folder / 'converted'}", "--nomeasure",
                 "--input_ranges=batch=3:4"]) == 0
    return folder / "converted"


def reloaded(server: ForkServer, loader: str, versions: list[Path], folder: Path) -> dict[str, Any]:
    library = build_library(STITCH_OP, load_config().cache_dir)
    done = server.completed(PROGRAM, [library, loader, *versions], plain_environment(), folder, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "tf_stitch" not in done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize("loader", ["objects", "session"])
@pytest.mark.parametrize("count", each_commit([25], [25, 300]))
def test_versions_leave_nothing(count: int, loader: str, model: Path, fork_server: ForkServer, tmp_path: Path
                                ) -> None:
    said = reloaded(fork_server, loader, [version(model, tmp_path / str(i), i) for i in range(count)], tmp_path)
    assert said["runs"] > count
    assert said["fallbacks"] == 0
    warm, last = said["has"][WARM], said["has"][-1]
    assert last["descriptors"] == warm["descriptors"]
    assert last["kernels"] == warm["kernels"]
    assert last["maps"] <= warm["maps"] + 10
    assert (last["bytes"] - warm["bytes"]) / (count - WARM) < A_VERSION


FORGOTTEN = """
import ctypes, sys
import tensorflow as tf
library, model = sys.argv[1:]
tf.load_op_library(library)
x = tf.ones([3, 16])
loaded = tf.saved_model.load(model)
serve = loaded.signatures["serving_default"]
serve(x=x)
tf.random.set_seed(1)  # TensorFlow frees all kernels
serve(x=x)
del loaded
serve(x=x)
counts = ctypes.CDLL(library).tfs_stat
print(counts(0), counts(3))
"""


def test_kernels_come_back_after_tensorflow_has_freed_its_ops(model: Path, fork_server: ForkServer, tmp_path: Path
                                                              ) -> None:
    library = build_library(STITCH_OP, load_config().cache_dir)
    done = fork_server.completed(FORGOTTEN, [library, model], plain_environment(), tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    runs, fallbacks = map(int, done.stdout.split())
    assert runs == 3 * 2
    assert fallbacks == 0
