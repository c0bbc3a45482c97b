"""What the doctor finds, and what it advises."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_commands import command, environment
from tests.support.fork_server import MODULE, ForkServer
from tf_stitch.runtime.recorded_compiler import record_compiler

Doctor = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def doctor(fork_server: ForkServer, tmp_path: Path) -> Doctor:
    """doctor(**variables): the command, in a process that has imported TensorFlow."""
    arguments = ["tf_stitch.__main__", "doctor"]
    return lambda **variables: fork_server.completed(MODULE, arguments, environment() | variables, tmp_path)


def test_a_sound_machine() -> None:
    done = command("doctor", "--try")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "was stitched, with TensorFlow's result" in done.stdout
    assert "NO  " not in done.stdout


def test_without_compilers(doctor: Doctor, tmp_path: Path) -> None:
    done = doctor(TF_STITCH_CACHE=str(tmp_path), PATH="/nonexistent")
    assert done.returncode == 1
    found = {line[4:20].strip(): line[:2] for line in done.stdout.splitlines() if line[:2] in ("ok", "--", "NO")}
    assert found["C compiler"] == "NO"
    assert found["graph_hook"] == "NO"
    assert found["stitch_op"] == "NO"
    assert "apt-get install g++" in done.stdout


def test_without_a_compiler_kernels_in_the_cache_serve(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    record_compiler(tmp_path / "kernels", "gcc (Debian) 12.2\nCopyright\n")
    done = doctor(TF_STITCH_CACHE=str(tmp_path), PATH="/nonexistent")
    assert "--  C compiler       none: kernels in the cache serve (by gcc (Debian) 12.2)\n" in done.stdout


def test_without_gxx_native_libraries_are_missing_alone(doctor: Doctor, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "gcc").symlink_to(next(Path(folder, "gcc") for folder in os.environ["PATH"].split(":")
                                    if Path(folder, "gcc").exists()))
    done = doctor(TF_STITCH_CACHE=str(tmp_path / "cache"), PATH=str(tools))
    assert "ok  C compiler" in done.stdout
    assert "NO  graph_hook" in done.stdout


def test_a_wrong_variable(doctor: Doctor) -> None:
    done = doctor(TF_STITCH_LOG="nonsense")
    assert done.returncode == 1
    assert "NO  variables        TF_STITCH_LOG='nonsense' is not allowed" in done.stdout
