"""The commands: what they say of themselves, and that they take no seconds for it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.conftest import ROOT
from tests.support.fork_server import MODULE, ForkServer
from tests.support.start import python_path
from tf_stitch.__main__ import main
from tf_stitch.cli.commands import COMMANDS, USAGE
from tf_stitch.config import plain_environment

SLOW = "import sys; sys.exit(', '.join({'tensorflow', 'keras', 'cupy'} & set(sys.modules)) or 0)"


def command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tf_stitch", *arguments], capture_output=True, text=True, timeout=250,
                          cwd=cwd, env=environment())


def environment() -> dict[str, str]:
    return plain_environment() | {"PYTHONPATH": python_path(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) > 8
    assert re.search(rf"tf_stitch {name} \S", said), "an example"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_flag_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([name, "--no_such_flag"])
    assert end.value.code == USAGE
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_help_imports_no_tensorflow() -> None:
    for name in COMMANDS:
        code = f"from tf_stitch.__main__ import main\ntry: main(['{name}', '--help'])\nexcept SystemExit: pass\n{SLOW}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, f"{name}: {done.stderr}"


def test_all_commands_are_told() -> None:
    done = command("--help")
    assert done.returncode == 0
    assert all(re.search(rf"^  {name} ", done.stdout, re.MULTILINE) for name in COMMANDS)
    assert command().returncode == 1


def test_run_turns_it_on_and_keeps_the_programs_flags(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import os, sys, tensorflow, tf_stitch\n"
        "print(tf_stitch.is_enabled(), os.environ['TF_STITCH'], sys.argv[1:], os.environ.get('TF_STITCH_LOG'))\n")
    done = command("run", "--log=builds", "program.py", "--report=mine", "--help", cwd=tmp_path)
    assert done.stdout == "True 1 ['--report=mine', '--help'] builds\n", done.stderr
    assert "[tf_stitch] nothing was stitched: no tf.function ran" in done.stderr
    assert command("run", cwd=tmp_path).returncode == USAGE
    assert "there is no program gone.py" in command("run", "gone.py", cwd=tmp_path).stderr


def test_runs_with_one_report_folder_keep_both(fork_server: ForkServer, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text("import tensorflow as tf\n"
                                         "tf.function(lambda x: tf.exp(x) * 2.0)(tf.ones([9]))\n")
    run = ["tf_stitch.__main__", "run", "--report=kept", "program.py"]
    for _ in range(3):
        done = fork_server.completed(MODULE, run, environment(), tmp_path)
        assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "kept" / "report.json").exists()
    earlier = list((tmp_path / "kept" / "earlier").iterdir())
    assert len(earlier) == 2
    assert all((folder / "report.json").exists() and (folder / "sources").is_dir() for folder in earlier)


def test_a_report_folder_that_cannot_be_written_is_said_at_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "program.py").write_text("import tensorflow, sys; print('begins', file=sys.stderr)\n")
    done = command("run", "--report=file/folder", "program.py", cwd=tmp_path)
    said = done.stderr
    assert 0 <= said.find("TF_STITCH_REPORT cannot be written") < said.find("begins")
