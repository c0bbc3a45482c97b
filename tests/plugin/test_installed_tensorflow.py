"""Which distributions count as TensorFlow, and what is said without one that will do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from tf_stitch.config import StitchConfig
from tf_stitch.errors import TensorFlowError
from tf_stitch.plugin.activation import enable
from tf_stitch.plugin.installed_tensorflow import check_version, find_tensorflow

ROOT = Path(__file__).parents[2]


def test_this_one() -> None:
    found = find_tensorflow()
    assert found.version == tf.version.VERSION
    assert found.distribution.startswith(("tensorflow", "tf"))


def installed(folder: Path, distribution: str, version: str) -> None:
    """What pip leaves of a wheel that brings a package `tensorflow`."""
    (folder / "tensorflow").mkdir(exist_ok=True)
    (folder / "tensorflow" / "__init__.py").write_text("")
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (info / "RECORD").write_text("tensorflow/__init__.py,,\n")


def find_in(folder: Path) -> str:
    program = ("import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p] + sys.argv[1:]\n"
               "from tf_stitch.plugin.installed_tensorflow import find_tensorflow\nprint(find_tensorflow())")
    run = subprocess.run([sys.executable, "-S", "-c", program, str(folder)], capture_output=True, text=True,
                         env={**os.environ, "PYTHONPATH": str(ROOT)})
    return run.stdout.strip() or run.stderr.splitlines()[-1]


@pytest.mark.parametrize(("distribution", "version"), [
    ("tensorflow-cpu", "2.16.1"), ("tensorflow-gpu", "2.17.0"), ("tf-nightly", "2.22.0.dev20260801"),
    ("tensorflow", "2.19.0+built.here")])  # fmt: skip
def test_any_distribution_counts(tmp_path: Path, distribution: str, version: str) -> None:
    installed(tmp_path, "a-plug-in", "1.0")  # sorted before, and in the same folder
    installed(tmp_path, distribution, version)
    assert find_in(tmp_path) == f"{distribution} {version}"


def test_a_build_that_pip_does_not_know(tmp_path: Path) -> None:
    installed(tmp_path, "a-plug-in", "1.0")
    assert find_in(tmp_path) == "a TensorFlow that pip does not know"


def test_none(tmp_path: Path) -> None:
    assert "TensorFlow is not installed: pip install tensorflow, or" in find_in(tmp_path)


def test_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, "tensorflow-cpu", "2.15.1")
    assert "TensorFlow 2.15.1 is too old, tf_stitch needs 2.16 or later: pip install" in find_in(tmp_path)
    for version in ("2.16.0-rc1", "2.21.0", "3.0.0"):
        check_version(version)
    monkeypatch.setattr(tf.version, "VERSION", "2.15.1")
    with pytest.raises(TensorFlowError, match=r"2\.15\.1 is too old"):
        enable(StitchConfig(enabled=True))


def test_pip_is_not_told_to_install_one() -> None:
    tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [name for name in project["dependencies"] if name.startswith("tensorflow")]
    assert [name for name in project["optional-dependencies"]["tensorflow"] if name.startswith("tensorflow")]
    assert project["requires-python"] == ">=3.10,<3.14"
