"""Work that is interrupted ends, wherever it is; and nothing else does."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tf_stitch import interruption
from tf_stitch.compiler_run import run_compiler
from tf_stitch.interruption import Interrupted, interrupt, interrupt_all, interruptible, run_foreign, unhurried


class Work(threading.Thread):
    """Does `work` interruptibly; `ended` says how."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self._work, self.began, self.ended = work, threading.Event(), ""
        self.start()

    def run(self) -> None:
        try:
            with interruptible():
                self.began.set()
                self._work()
            self.ended = "done"
        except Interrupted:
            self.ended = "interrupted"


def in_python() -> None:
    while True:
        sum(range(100))


def in_a_compiler() -> None:
    run_compiler(["sleep", "300"], 300)


def behind_a_lock() -> None:
    with threading.Lock() as _, threading.Lock():
        in_python()


def in_foreign_code() -> None:
    run_foreign(lambda: time.sleep(3))


def swallowing_errors() -> None:
    while True:
        try:
            in_python()
        except Exception:
            pytest.fail("caught")


@pytest.mark.parametrize("work", [in_python, in_a_compiler, behind_a_lock, in_foreign_code, swallowing_errors])
def test_work_ends_within_a_second(work: Callable[[], None]) -> None:
    thread = Work(work)
    thread.began.wait()
    time.sleep(0.1)
    start = time.monotonic()
    interrupt_all()
    thread.join(10)
    assert thread.ended == "interrupted"
    assert time.monotonic() - start < 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_work_that_a_finalizer_keeps_from_ending_is_interrupted_again() -> None:
    """Python prints what is raised in a finalizer, and goes on."""
    inside = threading.Event()

    class Slow:
        def __del__(self) -> None:
            inside.set()
            deadline = time.monotonic() + 0.2
            while time.monotonic() < deadline:
                pass

    def work() -> None:
        Slow()
        in_python()

    thread = Work(work)
    inside.wait()
    interrupt_all(5)
    thread.join(10)
    assert thread.ended == "interrupted"


def test_nothing_is_raised_outside() -> None:
    """However late: threads go on with other work."""
    wrong: list[str] = []
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                with interruptible():
                    sum(range(200))
            except Interrupted:
                pass
            try:
                sum(range(200))
            except Interrupted:
                wrong.append("outside")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        interruption.interrupt()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not interruption._working


def test_work_whose_end_python_never_calls_is_forgotten() -> None:
    """As where Interrupted is raised between `__enter__` and what follows it."""
    entered = threading.Event()

    def work() -> None:
        interruptible().__enter__()
        entered.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(10)
    thread.join()
    assert not interruption._working


def test_a_profiler_ends_after_work_has() -> None:
    """Under CPython 3.11 an exception that was taken back has a function that is profiled never begin."""
    program = """
import cProfile, threading
from tf_stitch.interruption import interruptible
def work():
    with interruptible():
        pass
def profiled():
    print("done")
thread = threading.Thread(target=work)
thread.start()
thread.join()
cProfile.Profile().runcall(profiled)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "done\n", done.stderr


def test_foreign_code_gives_results_and_errors() -> None:
    assert run_foreign(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        run_foreign(lambda: 1 // 0)


@pytest.fixture
def pressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruption, "_pressed", True)


@pytest.mark.usefixtures("pressed")
def test_nothing_is_begun_until_the_main_thread_has_run() -> None:
    thread = Work(in_python)
    thread.join(10)
    assert thread.ended == "interrupted"
    assert not thread.began.is_set()
    with interruptible():  # Python itself interrupts the main thread
        pass


@pytest.mark.usefixtures("pressed")
def test_ctrl_c_leaves_alone_what_nobody_waits_for_and_the_end_does_not() -> None:
    began, ended = threading.Event(), []

    def work() -> None:
        try:
            with unhurried(), interruptible():
                began.set()
                in_python()
        except Interrupted:
            ended.append("interrupted")

    thread = threading.Thread(target=work)
    thread.start()
    assert began.wait(10)
    interrupt(everything=False)
    thread.join(0.3)
    assert thread.is_alive()
    interrupt_all(10)
    thread.join(10)
    assert ended == ["interrupted"]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What loops were told, after a Ctrl-C while the main thread waits for a step."""
    told: list[bool] = []
    monkeypatch.setattr(interruption, "LOOP_PATIENCE", 0.1)
    monkeypatch.setattr(interruption, "_tell_loops", told.append)
    monkeypatch.setattr(interruption, "_pressed", True)
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.default_int_handler)
    in_module(monkeypatch, "tensorflow.python.eager.execute")
    return told


def in_module(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    frame = SimpleNamespace(f_globals={"__name__": name})
    monkeypatch.setattr(sys, "_current_frames", lambda: {threading.main_thread().ident: frame})


def test_loops_end_when_a_step_does_not(told: list[bool]) -> None:
    interruption._end_loops()
    assert told == [True]
    interruption._main_thread_runs(None)
    assert told == [True, False], "the next step's loops run"


def test_loops_run_on_in_a_step_that_ends(told: list[bool]) -> None:
    timer = threading.Timer(0.03, interruption._main_thread_runs, [None])
    timer.start()
    interruption._end_loops()
    timer.join()
    assert told == [False]


def test_loops_run_on_for_a_handler_of_the_programs_own(told: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: print)
    interruption._end_loops()
    assert told == []


@pytest.mark.parametrize("module", ["numpy", "tensorflow_datasets", "__main__"])
def test_loops_of_other_threads_run_on(told: list[bool], monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    in_module(monkeypatch, module)
    interruption._end_loops()
    assert told == []


def test_a_main_thread_that_comes_back_as_loops_are_told(told: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(interrupted: bool) -> None:
        told.append(interrupted)
        if interrupted:
            interruption._pressed = False

    monkeypatch.setattr(interruption, "_tell_loops", tell)
    interruption._end_loops()
    assert told == [True, False]
