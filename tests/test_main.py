"""The command `tf_stitch`, as pip installs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import tf_stitch
from tf_stitch.__main__ import main
from tf_stitch.cli.commands import USAGE

ROOT = Path(__file__).parents[1]


def test_the_installed_command_is_main() -> None:
    script = re.search(r'^tf_stitch = "(.+):(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert script is not None
    assert getattr(import_module(script[1]), script[2]) is main


@pytest.mark.parametrize("command", ["convert", "hfuse"])
def test_commands_are_found(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert f"tf_stitch {command}" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        main([command, "--no_such_flag"])
    assert end.value.code == 2


def test_without_arguments_the_commands_are_told() -> None:
    with pytest.raises(SystemExit, match="usage: tf_stitch COMMAND"):
        main([])


@pytest.mark.parametrize("arguments", [["--version"], ["version"]])
def test_the_version(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 0
    assert capsys.readouterr().out == f"tf_stitch {tf_stitch.__version__}\n"


@pytest.mark.parametrize(("name", "said"), [
    ("explian", "there is no command 'explian', and no such file: did you mean 'explain'?"),
    ("xyzzy", "there is no command 'xyzzy', and no such file; "), ("--explain", "--explain is no flag; ")])
def test_an_unknown_command(name: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "xyzzy").mkdir()
    with pytest.raises(SystemExit) as end:
        main([name, "/tmp/stitch"])
    assert end.value.code == USAGE
    assert capsys.readouterr().err.startswith(f"tf_stitch: {said}")


@pytest.mark.parametrize("name", ["train.py", "train", "folder"])
def test_a_program_runs(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for file in ("train.py", "train", "folder/__main__.py"):
        (tmp_path / file).write_text("import sys; print(sys.argv[1:])")
    done = subprocess.run([sys.executable, "-m", "tf_stitch", name, "--version"], cwd=tmp_path, capture_output=True,
                          text=True, env={**os.environ, "TF_STITCH": "0", "PYTHONPATH": str(ROOT)})
    assert done.stdout == "['--version']\n", done.stderr


def test_a_program_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"there is no program gone\.py"):
        main(["gone.py"])


def test_modules_of_the_current_folder_are_found(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys; print(__name__, sys.argv[1:])")
    code = "import sys; from tf_stitch.__main__ import main; sys.path[0] = '/'; main(['-m', 'mine', 'x'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "TF_STITCH": "0", "PYTHONPATH": str(ROOT)})
    assert done.stdout == "__main__ ['x']\n", done.stderr
