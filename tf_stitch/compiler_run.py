"""Runs compilers: each ends, with all programs that it started, when its time is over, when who waits for it is
interrupted, and when this process asks for it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar

_MAY_PASS = re.compile("killed|out of memory|memory exhausted|cannot allocate memory|no space left", re.IGNORECASE)
_lock = threading.Lock()
_running: set[subprocess.Popen[str]] = set()
_beside = ContextVar("beside", default=False)
_NICENESS = 10
"""Of compilers that nobody waits for."""


@contextlib.contextmanager
def beside_the_program() -> Iterator[None]:
    """Nobody waits for what this context builds inside: its compilers leave the processors to whoever wants them."""
    token = _beside.set(True)
    try:
        yield
    finally:
        _beside.reset(token)


def is_beside_the_program() -> bool:
    """Whether nobody waits for what is built in this context."""
    return _beside.get()


def run_compiler(command: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None
                 ) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, in a session of its own: what it starts is ended with it.

    Args:
        seconds: time limit.
        environment: its variables; None: those of this process.

    Raises:
        subprocess.TimeoutExpired: it did not end within `seconds`, and was killed.
        OSError: it cannot be started.
    """
    with _lock:  # end_compilers kills it, or comes before it
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, errors="replace", env=environment, start_new_session=True)
        _running.add(process)
    if is_beside_the_program():
        with contextlib.suppress(OSError):  # it has ended
            os.setpriority(os.PRIO_PGRP, process.pid, _NICENESS)
    try:
        output, errors = process.communicate(timeout=seconds)
        return subprocess.CompletedProcess(command, process.returncode, output, errors)
    finally:
        with _lock:
            _running.discard(process)
        _kill(process)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def may_pass(run: subprocess.CompletedProcess[str]) -> bool:
    """Whether a compiler failed because it, or a program that it runs, lacked something or was killed."""
    return run.returncode < 0 or (run.returncode != 0 and _MAY_PASS.search(run.stderr) is not None)


def end_compilers() -> None:
    """Kills all that run; who waits for one finds it killed."""
    with _lock:
        for process in _running:
            _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kills a program that has not been waited for, and what it started."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _forget() -> None:
    """A forked child has none of its parent's compilers."""
    global _lock
    _lock = threading.Lock()
    _running.clear()


os.register_at_fork(after_in_child=_forget)
