"""Ends work that nobody wants any more: somebody pressed Ctrl-C, or the program ends.

While TensorFlow runs a step the main thread is in C++, where Python handles no signal, and perhaps waits for a thread
that builds a region. So a thread of ours learns of each Ctrl-C (`watch`) and interrupts such work: TensorFlow's own ops
finish the step, the main thread comes back to Python, and Python's signal handler runs. Until then nothing is begun.
Loops that run as our op may never end: they fail where the main thread is not back within a second.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar

from tf_stitch.child_process import end_children

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds within which work that is interrupted mostly ends."""
LOOP_PATIENCE = 1.0
"""Seconds within which a step may end by itself, before its loops are ended."""
FOREIGN_PATIENCE = 5.0
"""Seconds that the end of the process waits for C++ code that calls Python when it returns."""
_PAUSE = 0.02
_AGAIN = 0.25  # seconds that a thread has to handle one interruption, before the next


class Interrupted(BaseException):
    """The work is not wanted any more. No Exception: who catches those goes on with the work."""


_lock = threading.Lock()
_working: dict[int, int] = {}  # id of what is interruptible -> its thread
_interrupted: dict[int, float] = {}  # threads in which Interrupted was to be raised, and may not have been yet -> when
_pressed = False  # Ctrl-C, and the main thread has not been in Python since
_ended = False
_foreign: set[threading.Thread] = set()
_unhurried: set[int] = set()  # threads that nobody waits for
_watched: tuple[Callable[[], None], Callable[[], object]] | None = None
_watcher: threading.Thread | None = None
_tell_loops: Callable[[bool], object] = bool  # nobody is told


class interruptible:
    """Work inside may end with Interrupted, at any line. Nothing changes in the main thread, where Ctrl-C raises
    KeyboardInterrupt.

    Raises:
        Interrupted: also where nothing is to be begun.
    """

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            return
        _ensure_watched()
        try:
            with _lock:
                if _ended or (_pressed and threading.get_ident() not in _unhurried):
                    raise Interrupted
                _working[id(self)] = threading.get_ident()
        except Interrupted:
            self.__exit__(None, None, None)
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
                 ) -> None:
        own = threading.get_ident()
        while True:
            try:
                with _lock:
                    _working.pop(id(self), None)
                    late = own in _interrupted and own not in _working.values()
                if late:
                    _interrupted.pop(own, None)
                    _raise_in(own, Interrupted)
                    while True:  # until it is raised
                        pass
                return
            except Interrupted:
                continue

    def __del__(self) -> None:
        """Interrupted may be raised when `__enter__` is over and Python will not call `__exit__` yet."""
        _working.pop(id(self), None)


@contextmanager
def unhurried() -> Iterator[None]:
    """Nobody waits for this thread meanwhile: Ctrl-C does not interrupt its work, the end of the program does."""
    own = threading.get_ident()
    _unhurried.add(own)
    try:
        yield
    finally:
        _unhurried.discard(own)


def interrupt(everything: bool = True) -> None:
    """Interrupts all work under way, but for what is unhurried unless it is `everything`, and kills its compilers.

    A thread that was interrupted a moment ago is left alone: what is raised while it handles the first would leave
    through the lines that keep work and what follows it apart.
    """
    end_children()
    with _lock:
        now = time.monotonic()
        for thread in set(_working.values()) - (set() if everything else _unhurried):
            if now - _interrupted.get(thread, -_AGAIN) >= _AGAIN:
                _interrupted[thread] = now
                _raise_in(thread, Interrupted)


def interrupt_all(patience: float = PATIENCE) -> None:
    """Interrupts all work under way and waits for its end, this many seconds at most."""
    _interrupt_while(lambda: True, patience, everything=True)


def end() -> None:
    """The program ends: no work is begun any more."""
    global _ended
    _ended = True
    interrupt_all()
    deadline = time.monotonic() + FOREIGN_PATIENCE
    for thread in list(_foreign):
        thread.join(max(0.0, deadline - time.monotonic()))


def run_foreign(call: Callable[[], T]) -> T:
    """Calls what stays in C++ for long, where nothing interrupts it, in another thread: its caller is interruptible."""
    results: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # raised below, by who waits
            errors.append(error)
        finally:
            _foreign.discard(threading.current_thread())
            done.set()

    thread = threading.Thread(target=run, name="tf_stitch_foreign", daemon=True)
    _foreign.add(thread)
    try:
        thread.start()
    except RuntimeError:  # no more threads
        _foreign.discard(thread)
        return call()
    while not done.wait(_PAUSE):
        pass
    if errors:
        raise errors[0]
    return results[0]


def watch(install: Callable[[], None], wait: Callable[[], object]) -> None:
    """From now on Ctrl-C interrupts work.

    Args:
        install: has SIGINT be seen by `wait`, beside what Python does; called again and again.
        wait: returns with the next SIGINT; it must not hold Python's lock meanwhile.
    """
    global _watched
    _watched = install, wait
    _ensure_watched()


def end_loops_by(tell: Callable[[bool], object]) -> None:
    """`tell(True)` has loops that run as our op fail with CancelledError in their next iteration, until
    `tell(False)`."""
    global _tell_loops
    _tell_loops = tell


def _ensure_watched() -> None:
    global _watcher
    if _watched is None:
        return
    install, wait = _watched
    with _lock:
        if _watcher is None:
            watcher = threading.Thread(target=_watch, args=(wait,), name="tf_stitch_interrupt", daemon=True)
            try:
                watcher.start()
            except RuntimeError:  # no more threads: Ctrl-C waits for the work's end
                return
            _watcher = watcher
    install()


def _watch(wait: Callable[[], object]) -> None:
    global _pressed
    while True:
        wait()
        _pressed = True
        if ctypes.pythonapi.Py_AddPendingCall(_MAIN_THREAD_RUNS, None) != 0:  # too many wait: it has not run for long
            _pressed = False
            interrupt(everything=False)
            continue
        _interrupt_while(_is_pressed, PATIENCE, everything=False)
        _end_loops()


def _end_loops() -> None:
    """Only where the error, which no TensorFlow raises there, is followed by KeyboardInterrupt: Python handles SIGINT
    as it comes, and the main thread waits for a step. What other threads run meanwhile cannot be told from that."""
    deadline = time.monotonic() + LOOP_PATIENCE
    while _pressed and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    if not _pressed or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None or frame.f_globals.get("__name__", "").partition(".")[0] not in ("tensorflow", "tf_stitch"):
        return
    _tell_loops(True)
    if not _pressed:  # the main thread came back meanwhile, and has told them too early
        _tell_loops(False)


def _is_pressed() -> bool:
    return _pressed


def _main_thread_runs(_: int | None) -> int:
    global _pressed
    _pressed = False  # without the lock, which this very thread may hold
    _tell_loops(False)
    return 0


_MAIN_THREAD_RUNS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_main_thread_runs)
"""Python calls it in the main thread, as soon as that runs Python code."""


def _interrupt_while(wanted: Callable[[], bool], patience: float, everything: bool) -> None:
    """Again and again, for code may catch what is raised in it (a finalizer does)."""
    deadline = time.monotonic() + patience
    while _working and wanted() and time.monotonic() < deadline:
        interrupt(everything)
        time.sleep(_PAUSE)


def _raise_in(thread: int, error: type[BaseException]) -> None:
    """Has a thread raise `error` at its next line.

    To be waited for, never taken back with NULL: CPython would look for it from then on at every call and jump, and
    3.11 without end in a function that is profiled.
    """
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    global _lock, _watcher, _pressed
    _lock, _watcher, _pressed = threading.Lock(), None, False
    _working.clear()
    _interrupted.clear()
    _foreign.clear()
    _unhurried.clear()
    _tell_loops(False)


os.register_at_fork(after_in_child=_forget)
