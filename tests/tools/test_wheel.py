"""A wheel for the TensorFlow that is installed: its libraries are found where there is no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import tensorflow as tf

from tools import wheel as wheels
from tools.wheel import make_wheel

NAME = "tf_stitch"
"""What pip calls it."""
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
    assert (name, build, python, abi) == (NAME, f"{tf.version.VERSION}tf", "py3", "none")
    assert platform.startswith("linux_")
    with zipfile.ZipFile(wheel) as file:
        assert any(Path(entry).name == "tf_stitch.pth" for entry in file.namelist())
        file.extractall(tmp_path / "wheel")
    [package] = [path.parent.parent for path in (tmp_path / "wheel").rglob("tf_stitch/__init__.py")]
    done = subprocess.run([sys.executable, "-c", FIND], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "PATH": "/nonexistent", "PYTHONPATH": str(package)})
    assert done.returncode == 0, done.stderr[-2000:]


def test_another_name_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip's name is a setting: what is imported and typed stays."""
    monkeypatch.setattr(wheels, "put_libraries", lambda folder: rename(folder.parents[2] / "pyproject.toml"))
    wheel = make_wheel(tmp_path)
    assert wheel.name.startswith("some_other_name-")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        [metadata] = [file.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")]
        [commands] = [file.read(name).decode() for name in names if name.endswith("entry_points.txt")]
    assert {"tf_stitch/__init__.py", "tf_stitch.pth"} <= set(names)
    assert "tf_stitch = tf_stitch.__main__:main" in commands
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:")]
    assert required
    assert not any(NAME in line for line in required), "an extra that asks for another project's"


def rename(project: Path) -> None:
    text = project.read_text()
    assert text.count(f'name = "{NAME}"\n') == 1
    project.write_text(text.replace(f'name = "{NAME}"\n', 'name = "some-other-name"\n'))


def test_a_wheel_for_several_versions_of_tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip takes the highest build tag: one of a version would keep the wheel from people with others."""
    names = [f"{library}-tf{version}-0123.so" for library in ("stitch_op", "graph_hook")
             for version in ("2.20.0", "2.21.0")]

    def put(folder: Path) -> None:
        folder.mkdir()
        for name in names:
            (folder / name).write_bytes(b"")

    monkeypatch.setattr(wheels, "put_libraries", put)
    wheel = make_wheel(tmp_path)
    assert len(wheel.stem.split("-")) == 5, "no build tag"
    assert "-py3-none-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as file:
        assert set(names) <= {Path(entry).name for entry in file.namelist()}
