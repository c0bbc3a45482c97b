"""Ctrl-C is answered within a second wherever a first step is, and a second later by a loop that never ends; nothing
keeps a program from ending.

The compilers here sleep for minutes, with a child that does so, too.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest
import tensorflow as tf

from tests.end_to_end.conftest import PRECISE, PROGRAMS, ROOT, Runner, module_path
from tests.support.fork_server import WHOLE_END, ForkServer
from tests.support.start import python_path
from tests.support.tiers import each_commit
from tf_stitch import interruption

STUCK, ENDLESS = PROGRAMS / "stuck.py", PROGRAMS / "endless_loop.py"
SECONDS = 1.0
SLEEP = "12321"


class Running(Protocol):
    """subprocess.Popen or Forked."""

    pid: int

    def wait(self, timeout: float) -> int: ...


class Program:
    """A program that runs, and what it says in files, with times."""

    def __init__(self, running: Running, files: Sequence[Path]) -> None:
        self._running, self._ended = running, False
        self.lines: list[tuple[float, str]] = []
        self._reader = threading.Thread(target=self._read, args=(files,), daemon=True)
        self._reader.start()

    def _read(self, files: Sequence[Path]) -> None:
        begun = dict.fromkeys(map(Path.open, files), "")
        ended = False
        while not ended:
            ended = self._ended
            for stream in begun:
                *lines, begun[stream] = (begun[stream] + stream.read()).split("\n")
                self.lines += [(time.monotonic(), line) for line in lines]
            time.sleep(0.01)

    def said(self, text: str, patience: float = 120) -> float:
        """When it said `text`; waits for that."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            for when, line in list(self.lines):
                if text in line:
                    return when
            time.sleep(0.01)
        pytest.fail(f"never said {text!r}: {self.text()}")

    def text(self) -> str:
        return "\n".join(line for _, line in self.lines)

    def interrupt(self) -> float:
        os.kill(self._running.pid, signal.SIGINT)
        return time.monotonic()

    def end(self) -> int:
        """Its exit status, soon."""
        code = self._running.wait(60)
        self._ended = True
        self._reader.join()
        return code


Start = Callable[..., Program]


@pytest.fixture
def start(start_folder: Path, fork_server: ForkServer, tmp_path: Path) -> Start:
    """start(program, *arguments, **variables): with TF_STITCH=1, forked off a process that has imported TensorFlow."""
    files = [tmp_path / "stdout", tmp_path / "stderr"]

    def fork(*command: object, **variables: str) -> Program:
        for file in files:
            file.touch()
        environment = _environment(start_folder) | WHOLE_END | variables
        return Program(fork_server.start([*map(str, command)], environment, tmp_path), files)

    return fork


@pytest.fixture
def start_anew(start_folder: Path, tmp_path: Path) -> Start:
    """As `start`, a Python of its own. Arguments are Python's."""
    file = tmp_path / "stdout"

    def run(*command: object, **variables: str) -> Program:
        environment = _environment(start_folder) | variables
        environment |= {"PYTHONPATH": python_path(environment["PYTHONPATH"])}
        with file.open("w") as out:
            process = subprocess.Popen([sys.executable, *map(str, command)], stdout=out, stderr=out, env=environment)
        return Program(process, [file])

    return run


def _environment(start_folder: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_STITCH")}
    return environment | {"PYTHONPATH": f"{start_folder}:{module_path(ROOT)}", "TF_CPP_MIN_LOG_LEVEL": "2",
                          "TF_STITCH": "1", "TF_STITCH_ASYNC": "0", "CUDA_VISIBLE_DEVICES": "-1"}


@contextmanager
def sleeping_compiler(folder: Path, name: str, when: str) -> Iterator[tuple[str, Path]]:
    """A PATH whose compiler sleeps when its arguments match `when`, and a file that is there when it has begun. None
    may outlive the program."""
    (folder / "bin").mkdir()
    begun, real = folder / "begun", shutil.which(name)
    (folder / "bin" / name).write_text(
        f'#!/bin/sh\ncase "$*" in {when}) touch {begun}; sleep {SLEEP} & sleep {SLEEP};; esac\nexec {real} "$@"\n')
    (folder / "bin" / name).chmod(0o755)
    yield f"{folder}/bin:{os.environ['PATH']}", begun
    deadline = time.monotonic() + 10
    while sleeping(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not sleeping(folder), "a compiler, or its child, outlived the program"


def sleeping(folder: Path) -> list[int]:
    """Processes of the compiler in `folder`: they have it in their PATH."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and SLEEP.encode() in (process / "cmdline").read_bytes() and \
                    str(folder).encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:  # gone
            continue
    return found


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 120
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.2)


@pytest.fixture(scope="module")
def expected(forked: Runner) -> dict[str, list[float]]:
    return {which: json.loads(forked(STUCK, "", which, "goes on", stitch="").stdout) for which in ("one", "several")}


@pytest.mark.parametrize("which", ["one", "several"])
def test_while_a_kernel_is_compiled(start_anew: Start, cache: Path, tmp_path: Path, which: str) -> None:
    with sleeping_compiler(tmp_path, "gcc", "*kernel.c*") as (path, begun):
        program = start_anew(STUCK, "", which, "leaves", PATH=path, TF_STITCH_CACHE=str(cache))
        wait_for(begun)
        pressed = program.interrupt()
        assert program.said("interrupted") - pressed < SECONDS
        assert program.said("[tf_stitch]") - pressed < 2 * SECONDS, "the last that tf_stitch does"
        assert program.end() == 3, program.text()


PLANNING, EMITTING, CLUSTERING = ("tf_stitch.compiler.pipeline:plan_region", "tf_stitch.runtime.host_builder:code_of",
                                  "tf_stitch.graph.clustering.clusters:Clustering.find")
STUCK_IN = [(stuck, which) for stuck in (PLANNING, EMITTING, CLUSTERING) for which in ("one", "several")]


@pytest.mark.parametrize("case", each_commit([(PLANNING, "several"), (EMITTING, "one"), (CLUSTERING, "several")],
                                             STUCK_IN), ids="-".join)
def test_anywhere_and_the_program_goes_on(start: Start, cache: Path, expected: dict[str, list[float]],
                                          case: tuple[str, str]) -> None:
    stuck, which = case
    program = start(STUCK, stuck, which, "goes on", TF_STITCH_CACHE=str(cache))
    program.said("begun")
    pressed = program.interrupt()
    assert program.said("interrupted") - pressed < SECONDS
    assert program.end() == 0, program.text()
    [result] = [json.loads(line) for _, line in program.lines if line.startswith("[") and "tf_stitch" not in line]
    assert result == pytest.approx(expected[which], rel=1e-5)


@pytest.fixture(scope="module")
def three_iterations(forked: Runner, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """What TensorFlow gives."""
    program = tmp_path_factory.mktemp("endless") / "ends.py"
    program.write_text(ENDLESS.read_text().replace("2**62", "1"))
    result: list[float] = json.loads(forked(program, "function", "cold", stitch="").stdout.splitlines()[-1])
    return result


def check_loop_ends(program: Program, wanted: list[float]) -> None:
    program.said("begun")
    time.sleep(0.5)
    pressed = program.interrupt()
    assert program.said("interrupted", patience=60) - pressed < interruption.LOOP_PATIENCE + 2 * SECONDS
    assert program.end() == 0, program.text()
    [result] = [json.loads(line) for _, line in program.lines if line.startswith("[") and "tf_stitch" not in line]
    assert result == pytest.approx(wanted, rel=1e-4), "the next step"


@pytest.mark.parametrize("where", ["function", "session"])
def test_in_a_loop_that_never_ends(start: Start, cache: Path, three_iterations: list[float], where: str) -> None:
    check_loop_ends(start(ENDLESS, where, "warm", TF_STITCH_CACHE=str(cache)), three_iterations)


@pytest.mark.gpu
@pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="no GPU")
@pytest.mark.parametrize("where", ["function", "session"])
def test_in_a_gpus_loop_that_never_ends(start_anew: Start, cache: Path, three_iterations: list[float], where: str
                                        ) -> None:
    environment = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0"), **PRECISE}
    check_loop_ends(start_anew(ENDLESS, where, "warm", TF_STITCH_CACHE=str(cache), **environment), three_iterations)


def test_in_nodes_that_run_in_place_of_the_loop(start: Start, cache: Path, three_iterations: list[float],
                                                tmp_path: Path) -> None:
    """The kernels are not there yet, and the nodes never end."""
    with sleeping_compiler(tmp_path, "gcc", "*kernel.c*") as (path, compiling):
        program = start(ENDLESS, "function", "cold", PATH=path, TF_STITCH_CACHE=str(cache), TF_STITCH_ASYNC="1")
        wait_for(compiling)  # before that the graph is rewritten
        check_loop_ends(program, three_iterations)


def test_while_a_native_library_is_built(start_anew: Start, tmp_path: Path) -> None:
    with sleeping_compiler(tmp_path, "g++", "*.cc*") as (path, begun):
        source = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nimport tensorflow"
        program = start_anew("-c", source, PATH=path, TF_STITCH_CACHE=str(tmp_path / "cache"))
        wait_for(begun)
        pressed = program.interrupt()
        assert program.said("KeyboardInterrupt") - pressed < SECONDS
        assert program.end() != 0
    assert not list((tmp_path / "cache" / "native").glob("*.so*"))


@pytest.mark.parametrize(("asynchronous", "seconds"), [("0", "0"), ("0", "3000"), ("0", "0.05"), ("1", "0"),
                                                       ("auto", "10")])
def test_the_program_ends_during_builds(start: Start, cache: Path, tmp_path: Path, asynchronous: str, seconds: str
                                        ) -> None:
    """Of a thread that nobody waits for, and in the background, awaited and not."""
    with sleeping_compiler(tmp_path, "gcc", "*kernel.c*") as (path, begun):
        program = start(PROGRAMS / "earned_at_once.py", PROGRAMS / "leaves_while_building.py", PATH=path,
                        TF_STITCH_CACHE=str(cache), TF_STITCH_ASYNC=asynchronous,
                        TF_STITCH_FIRST_STEP_SECONDS=seconds, BEGUN=str(begun))
        wait_for(begun)
        left = program.said("left")
        assert program.said("[tf_stitch]") - left < SECONDS
        assert program.end() == 0, program.text()


def test_ctrl_c_ends_no_build_that_nobody_waits_for(start: Start, cache: Path, tmp_path: Path) -> None:
    """It ends its compiler; the function is stitched all the same."""
    source = """
import signal, time, tensorflow as tf, tf_stitch
signal.signal(signal.SIGINT, signal.default_int_handler)
x = tf.reshape(tf.range(800.0), [8, 100]) / 800.0
calls = tf.Variable(0)

@tf.function
def step(x):
    calls.assign_add(1)
    return tf.nn.softmax(tf.tanh(x) * 2.0 + 1.0)

first = [step(x), step(x)][0]
try:
    time.sleep(100)
except KeyboardInterrupt:
    print("interrupted", flush=True)
while not tf_stitch.last_report()["regions"] or not tf_stitch.last_report()["regions"][0]["runs"]:
    again = step(x)
    time.sleep(0.1)
assert float(tf.reduce_max(tf.abs(first - again))) < 1e-6
print("stitched", flush=True)
"""
    (tmp_path / "bin").mkdir()
    begun, real = tmp_path / "begun", shutil.which("gcc")
    (tmp_path / "bin" / "gcc").write_text(f'#!/bin/sh\ncase "$*" in *kernel.c*) test -e {begun} || (touch {begun}; '
                                          f'sleep {SLEEP});; esac\nexec {real} "$@"\n')
    (tmp_path / "bin" / "gcc").chmod(0o755)
    (tmp_path / "program.py").write_text(source)
    program = start(PROGRAMS / "earned_at_once.py", tmp_path / "program.py",
                    PATH=f"{tmp_path}/bin:{os.environ['PATH']}", TF_STITCH_CACHE=str(cache), TF_STITCH_ASYNC="auto")
    wait_for(begun)
    pressed = program.interrupt()
    assert program.said("interrupted") - pressed < SECONDS
    program.said("stitched")
    assert program.end() == 0, program.text()


def test_a_handler_of_the_programs_own_is_called_once(start: Start, cache: Path, tmp_path: Path) -> None:
    """And the step, which plain TensorFlow would finish, is finished."""
    source = STUCK.read_text().replace(
        "signal.default_int_handler)", "lambda *_: print('handled', flush=True))")
    (tmp_path / "program.py").write_text(source)
    with sleeping_compiler(tmp_path, "gcc", "*kernel.c*") as (path, begun):
        program = start(tmp_path / "program.py", "", "one", "leaves", PATH=path, TF_STITCH_CACHE=str(cache))
        wait_for(begun)
        pressed = program.interrupt()
        assert program.said("handled") - pressed < SECONDS
        assert program.end() == 3, program.text()
    assert program.text().count("handled") == 1
    assert "interrupted" not in program.text()
