"""A setting of the process that several threads may want at the same time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class ProcessSetting:
    """Made when the first thread comes, undone when the last one leaves. Thread-safe.

    Args:
        make: makes the setting, and returns what undoes it.
    """

    def __init__(self, make: Callable[[], Callable[[], object]]) -> None:
        self._make, self._lock, self._inside = make, threading.Lock(), 0
        self._undo: Callable[[], object] = lambda: None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """The setting holds inside; may be nested."""
        with self._lock:
            if self._inside == 0:
                self._undo = self._make()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._undo()
