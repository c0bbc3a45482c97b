"""Threads for what no call of the program waits for. Importing this is cheap; what they do may not be."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tf_stitch.interruption import interrupt_all, unhurried
from tf_stitch.jit.interpreter_turns import short_turns

_MOST_THREADS = 32


class Background:
    """Thread-safe. Ctrl-C does not interrupt what runs here, the end of the program does."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._start()
        try:  # before pools are waited for, as jit/prebuild.py does it
            threading._register_atexit(self._close)  # type: ignore[attr-defined]
        except RuntimeError:  # the program ends
            self._stopping.set()

    @property
    def stopping(self) -> bool:
        """The program ends."""
        return self._stopping.is_set()

    def submit(self, work: Callable[[], None]) -> bool:
        """Does something in a thread of its own. False if the program ends."""
        if os.getpid() != self._process:  # a forked child has none of its parent's threads
            self._start()
        try:
            self._pool.submit(self._run, work)
        except RuntimeError:  # no more threads
            return False
        return True

    def _start(self) -> None:
        self._process = os.getpid()
        self._pool = ThreadPoolExecutor(_MOST_THREADS, "tf_stitch_background")

    def _run(self, work: Callable[[], None]) -> None:
        with unhurried(), short_turns():
            work()

    def _close(self) -> None:
        self._stopping.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        interrupt_all()
