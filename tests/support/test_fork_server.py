"""What is forked off a process with TensorFlow is a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.fork_server import WHOLE_END, ForkServer


def result(fork_server: ForkServer, folder: Path, text: str, *arguments: str, timeout: float = 60, **variables: str
           ) -> tuple[int, str, str]:
    done = fork_server.completed(text, arguments, os.environ | variables, folder, timeout)
    return done.returncode, done.stdout, done.stderr


def test_arguments_environment_output_and_exit(fork_server: ForkServer, tmp_path: Path) -> None:
    code, out, err = result(fork_server, tmp_path, (
        "import atexit, os, sys\n"
        "atexit.register(lambda: print('at the end'))\n"
        "print(__name__, sys.argv[1:], os.environ['ANSWER'], 'tensorflow' in sys.modules)\n"
        "print('aside', file=sys.stderr)\n"
        "sys.exit(3)\n"), "x", ANSWER="42")
    assert (code, out, err) == (3, "__main__ ['x'] 42 True\nat the end\n", "aside\n")
    assert "ANSWER" not in os.environ


@pytest.mark.parametrize(("variables", "collected"), [({}, ""), (WHOLE_END, "collected\n")])
def test_a_program_leaves_its_modules_to_the_system(fork_server: ForkServer, tmp_path: Path, variables: dict[str, str],
                                                    collected: str) -> None:
    """Threads that it waits for and what it has registered come first."""
    code, out, err = result(fork_server, tmp_path, (
        "import atexit, os, sys, threading, time\n"
        "class Module:\n"
        "    def __del__(self, write=os.write): write(1, b'collected\\n')\n"
        "kept = Module()\n"
        "atexit.register(lambda: print('at the end'))\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()\n"
        "sys.exit()\n"), **variables)
    assert (code, out, err) == (0, f"thread\nat the end\n{collected}", "")


def test_errors_and_signals(fork_server: ForkServer, tmp_path: Path) -> None:
    code, _, err = result(fork_server, tmp_path, "raise ValueError('no')")
    assert code == 1
    assert err.endswith("ValueError: no\n")
    code, _, _ = result(fork_server, tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGABRT)")
    assert code == -signal.SIGABRT


def test_a_module_is_run(fork_server: ForkServer, tmp_path: Path) -> None:
    assert fork_server.run(["-m", "json.tool", "--help"], os.environ, tmp_path, 60) == 0
    assert (tmp_path / "stdout").read_text().startswith("usage: python -m json.tool")


def test_what_is_not_preloaded_can_be_imported(fork_server: ForkServer, tmp_path: Path) -> None:
    code, out, err = result(fork_server, tmp_path, "import sys\nprint({'sklearn', 'matplotlib'} & set(sys.modules))\n"
                                              "import matplotlib, sklearn\nprint(sklearn.__name__)\n")
    assert (code, out) == (0, "set()\nsklearn\n"), err


def test_a_command_runs_a_program_in_it(fork_server: ForkServer, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import os, sys\n"
                       "print(sys.argv[1:], os.environ['ANSWER'], 'tensorflow' in sys.modules, flush=True)\n"
                       "print('aside', file=sys.stderr, flush=True)\n"
                       "sys.exit(3) if sys.argv[1] == 'x' else os.kill(os.getpid(), 9)\n")
    for argument, status in (("x", 3), ("y", 137)):
        done = subprocess.run([*fork_server.command, program, argument], capture_output=True, text=True, timeout=60,
                              env=os.environ | {"ANSWER": "42"})
        assert (done.returncode, done.stdout, done.stderr) == (status, f"['{argument}'] 42 True\n", "aside\n")


def test_a_program_that_takes_too_long_is_ended(fork_server: ForkServer, tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        result(fork_server, tmp_path, "import time\ntime.sleep(100)", timeout=1)


def test_what_is_read_when_tensorflow_is_imported_cannot_be_asked_for(fork_server: ForkServer) -> None:
    assert fork_server.can_run(os.environ)
    assert fork_server.can_run(os.environ | {"TF_STITCH": "1", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": "/x"})
    assert not fork_server.can_run(os.environ | {"TF_ENABLE_ONEDNN_OPTS": "7"})


def test_a_program_starts_tf_stitch_for_itself(fork_server: ForkServer, tmp_path: Path) -> None:
    text = ("import tf_stitch.plugin.autoload as a\n"
            "print(a.is_active())\n")  # fmt: skip
    for variable, active in (("", False), ("1", True), ("0", False)):
        code, out, err = result(fork_server, tmp_path, text, TF_STITCH=variable, TF_STITCH_REPORT="")
        assert (code, out) == (0, f"{active}\n"), err
        assert err.count("[tf_stitch]") == active, "only what was started says something at the end"
