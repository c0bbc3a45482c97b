"""Compilers end: with their time, with who waits for them, and when all are to end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.runtime.test_host_builder import assert_ends
from tf_stitch.compiler_run import beside_the_program, end_compilers, is_beside_the_program, run_compiler


def test_what_it_says() -> None:
    done = run_compiler(["sh", "-c", "echo out; echo err >&2; exit 3"], 10)
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)


def test_what_is_no_utf8_is_read() -> None:
    assert run_compiler(["sh", "-c", r"printf '\377' >&2"], 10).stderr == "\ufffd"


def test_no_such_program() -> None:
    with pytest.raises(OSError, match="no-such-compiler"):
        run_compiler(["no-such-compiler"], 10)


def test_it_ends_with_its_time_and_so_do_its_children(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        run_compiler(["sh", "-c", f"sleep 300 & echo $! > {tmp_path}/child; wait"], 1)
    assert time.monotonic() - start < 10
    assert_ends(int((tmp_path / "child").read_text()))


def test_what_leaves_its_session_is_not_waited_for() -> None:
    """It holds the pipes open."""
    start = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        run_compiler(["sh", "-c", f"{sys.executable} -c 'import os, time; os.setsid(); time.sleep(20)' & wait"], 2)
    assert time.monotonic() - start < 10


def test_all_end() -> None:
    codes: list[int] = []
    threads = [threading.Thread(target=lambda: codes.append(run_compiler(["sleep", "300"], 300).returncode))
               for _ in range(3)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    while len(codes) < 3 and time.monotonic() < deadline:
        end_compilers()
        time.sleep(0.05)
    assert codes == [-9] * 3


def test_a_forked_child_does_not_end_its_parents_compilers() -> None:
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(run_compiler(["sleep", "1"], 300).returncode))
    thread.start()
    time.sleep(0.3)
    child = os.fork()
    if child == 0:
        end_compilers()
        os._exit(0)
    os.waitpid(child, 0)
    thread.join()
    assert codes == [0]


def test_a_compiler_that_nobody_waits_for_gives_way() -> None:
    niceness = ["sh", "-c", "sleep 0.3; nice"]
    own = int(run_compiler(niceness, 10).stdout)
    with beside_the_program():
        assert is_beside_the_program()
        assert int(run_compiler(niceness, 10).stdout) == min(19, max(10, own))
    assert not is_beside_the_program()
