"""Programs that tf_stitch starts: where they run, what they import, and when they end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.runtime.test_host_builder import assert_ends
from tests.support.start import python_path
from tf_stitch.child_process import end_children, find_program, program_under_tf_stitch, run

ROOT = Path(__file__).parents[1]


def test_what_it_says() -> None:
    done = run(["sh", "-c", "echo out; echo err >&2; exit 3"], 10)
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)


def test_what_is_no_utf8_is_read() -> None:
    assert run(["sh", "-c", r"printf '\377' >&2"], 10).stderr == "\ufffd"


def test_no_such_program() -> None:
    with pytest.raises(OSError, match="no-such-program"):
        run(["no-such-program"], 10)


def test_it_ends_with_its_time_and_so_do_its_children(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        run(["sh", "-c", f"sleep 300 & echo $! > {tmp_path}/child; wait"], 1)
    assert time.monotonic() - start < 10
    assert_ends(int((tmp_path / "child").read_text()))


def test_what_leaves_its_session_is_not_waited_for() -> None:
    """It holds the pipes open."""
    start = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        run(["sh", "-c", f"{sys.executable} -c 'import os, time; os.setsid(); time.sleep(20)' & wait"], 2)
    assert time.monotonic() - start < 10


def test_all_end() -> None:
    codes: list[int] = []
    threads = [threading.Thread(target=lambda: codes.append(run(["sleep", "300"], 300).returncode))
               for _ in range(3)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    while len(codes) < 3 and time.monotonic() < deadline:
        end_children()
        time.sleep(0.05)
    assert codes == [-9] * 3


def test_a_forked_child_does_not_end_its_parents_children() -> None:
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(run(["sleep", "1"], 300).returncode))
    thread.start()
    time.sleep(0.3)
    child = os.fork()
    if child == 0:
        end_children()
        os._exit(0)
    os.waitpid(child, 0)
    thread.join()
    assert codes == [0]


START = """
import os, signal, sys, threading, time
from tf_stitch.child_process import run, run_at_the_end
threading.Thread(target=run, args=(["sh", "-c", f"sleep 300 & echo $! > {sys.argv[1]}; sleep 300"],)).start()
while not os.path.exists(sys.argv[1]) or not os.path.getsize(sys.argv[1]):
    time.sleep(0.01)
"""
ENDS = {"exit": "os._exit(0)", "killed": "os.kill(os.getpid(), signal.SIGKILL)",
        "killed, and a fork of it is not": "os.fork() or (time.sleep(20), os._exit(0))\n"
                                           "os.kill(os.getpid(), signal.SIGKILL)"}


@pytest.mark.parametrize("end", ENDS)
def test_nothing_outlives_its_process(tmp_path: Path, end: str) -> None:
    subprocess.run([sys.executable, "-c", START + ENDS[end], str(tmp_path / "child")], cwd=ROOT, timeout=60,
                   stdout=subprocess.DEVNULL)
    assert_ends(int((tmp_path / "child").read_text()))


def test_it_runs_in_an_empty_folder_of_its_own() -> None:
    where, mode, *others = run(["sh", "-c", "pwd; stat -c %a .; ls -A"]).stdout.splitlines()
    assert mode == "700"
    assert not others
    assert not Path(where).exists(), "afterwards"
    assert Path(where) != Path.cwd()


def test_where_it_is_told_to(tmp_path: Path) -> None:
    assert run(["pwd"], folder=tmp_path).stdout == f"{tmp_path}\n"


def test_a_signal_that_ends_it() -> None:
    assert run(["sh", "-c", "kill -SEGV $$"]).returncode == -11
    assert run(["sh", "-c", "exit 255"]).returncode == 255


def test_it_reads_nothing() -> None:
    assert run(["cat"], 10).stdout == ""


FOREIGN = """
import sys
from tf_stitch.child_process import python_code, run
done = run(python_code("import ctypes, tf_stitch, there; print(tf_stitch.__file__, there.__file__)"))
print(done.stdout, done.stderr)
"""


@pytest.mark.parametrize("way", ["script", "module", "code"])
def test_python_imports_nothing_from_the_programs_folders(tmp_path: Path, way: str) -> None:
    folder, libraries = tmp_path / "shared", tmp_path / "libraries"
    folder.mkdir()
    libraries.mkdir()
    (libraries / "there.py").write_text("")
    for name in ("ctypes", "there"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (folder / "program.py").write_text("import sys; sys.path.append(sys.path.pop(0))\n" + FOREIGN)
    command = {"script": ["program.py"], "module": ["-m", "program"],
               "code": ["-c", "import sys; sys.path.append(sys.path.pop(0))\n" + FOREIGN]}[way]
    path = os.pathsep.join((python_path(ROOT), str(libraries), ""))  # what is empty is the working folder
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": path})
    assert done.stdout.split() == [str(ROOT / "tf_stitch" / "__init__.py"), str(libraries / "there.py")], done
    assert not (tmp_path / "ran").exists()


def test_tf_stitch_itself_is_not_imported_from_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "absl.py").write_text("raise SystemExit('not the real one')")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "absl.py").write_text("raise SystemExit('not the real one')")
    (tmp_path / "program.py").write_text("import sys; print(sys.argv, sys.path[0])")
    done = run(program_under_tf_stitch([str(tmp_path / "program.py"), "x"]), folder=tmp_path / "shared")
    assert done.stdout.splitlines()[-1] == f"{[str(tmp_path / 'program.py'), 'x']} {tmp_path}", done


def test_a_program_of_the_working_folder_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gcc").write_text("#!/bin/sh\n")
    (tmp_path / "gcc").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    assert find_program(["gcc"]) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program(["no-such-program", "gcc"]) == str(tmp_path / "gcc")
