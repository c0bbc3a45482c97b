"""A wheel for the TensorFlow that is installed: its libraries are found where there is no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import tensorflow as tf

from tools.wheel import make_wheel

FIND = """
from tf_stitch.native.build import GRAPH_HOOK, PREBUILT, STITCH_OP, build_library, find_compiler
from pathlib import Path
assert find_compiler() is None
for library in (GRAPH_HOOK, STITCH_OP):
    path = build_library(library, Path("/nonexistent"))
    assert path.parent == PREBUILT, path
"""


def test_a_wheel_needs_no_compiler(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "dist")
    name, _, build, python, abi, platform = wheel.stem.split("-")
    assert (name, build, python, abi) == ("tf_stitch", f"{tf.version.VERSION}tf", "py3", "none")
    assert platform.startswith("linux_")
    with zipfile.ZipFile(wheel) as file:
        assert any(Path(entry).name == "tf_stitch.pth" for entry in file.namelist())
        file.extractall(tmp_path / "wheel")
    [package] = [path.parent.parent for path in (tmp_path / "wheel").rglob("tf_stitch/__init__.py")]
    done = subprocess.run([sys.executable, "-c", FIND], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "PATH": "/nonexistent", "PYTHONPATH": str(package)})
    assert done.returncode == 0, done.stderr[-2000:]
