"""How long the steps of one graph wait for kernels, before TensorFlow's own ops run until they are built."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, wait
from typing import Any

Wait = Callable[[Collection[Future[Any]], float], object]

POLL_SECONDS = 0.2
"""Ctrl-C reaches a thread between two waits."""


def wait_until_built(build: Future[Any]) -> None:
    """Returns when a build has ended, however long that takes."""
    while not build.done():
        wait((build,), POLL_SECONDS)


class BuildBudget:
    """One for each graph, for all its shapes. Thread-safe: a second in which several regions wait counts once, and one
    in which none waits does not count.

    Args:
        seconds: how long callers wait altogether, by the clock on the wall.
        spent: is told once, when a build is waited for no longer.
        clock: seconds.
        wait: waits for futures, so many seconds at most.
    """

    def __init__(self, seconds: float, spent: Callable[[], None], clock: Callable[[], float] = time.monotonic,
                 wait: Wait = wait) -> None:
        self._left, self._spent, self._clock, self._wait = seconds, spent, clock, wait
        self._waiting = 0
        self._since = 0.0  # while anybody waits
        self._told = False
        self._lock = threading.Lock()

    @property
    def left(self) -> float:
        """Seconds."""
        with self._lock:
            return max(0.0, self._left - (self._clock() - self._since if self._waiting else 0.0))

    def allow(self, seconds: float) -> None:
        """From now on callers wait so long at least."""
        with self._lock:
            self._left = max(self._left, seconds)

    def wait(self, build: Future[Any]) -> None:
        """Returns when a build has ended, or nothing is left."""
        self._begin()
        try:
            if not build.done() and (left := self.left) > 0:
                self._wait((build,), left)
        finally:
            self._end()
        if not build.done():
            self._tell()

    def _begin(self) -> None:
        with self._lock:
            if not self._waiting:
                self._since = self._clock()
            self._waiting += 1

    def _end(self) -> None:
        with self._lock:
            self._waiting -= 1
            if not self._waiting:
                self._left -= self._clock() - self._since

    def _tell(self) -> None:
        with self._lock:
            told, self._told = self._told, True
        if not told:
            self._spent()
