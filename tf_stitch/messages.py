"""What is said on stderr: whole lines, channels by name, and on a terminal one line of progress that goes again."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

CHANNELS = ("builds", "shapes", "fusion", "fallback")
"""What TF_STITCH_LOG may name."""
PATIENCE = 3.0
"""Seconds before what goes on is shown."""
_TICK = 0.2
_ERASE = "\r\x1b[K"


class _Voice:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.channels: frozenset[str] = frozenset()
        self.shows = False


_voice = _Voice()
os.register_at_fork(after_in_child=lambda: setattr(_voice, "lock", threading.Lock()))


def counted(number: int, noun: str) -> str:
    """A number of things, as "1 kernel" and "2 kernels"."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def mib(nbytes: float, digits: int = 1) -> str:
    """Bytes in words, as "1,024.5 MiB"."""
    return f"{nbytes / (1 << 20):,.{digits}f} MiB"


def say(text: str) -> None:
    """Says something; lines of several threads do not mix."""
    with _voice.lock:
        _write(f"{_ERASE if _voice.shows else ''}[tf_stitch] {text}\n")
        _voice.shows = False


def listen(channels: frozenset[str]) -> None:
    """Which channels `log` says."""
    _voice.channels = channels


def log(channel: str, text: str) -> None:
    """Says something that is asked for by TF_STITCH_LOG."""
    if channel in _voice.channels:
        say(f"{channel}: {text}")


class Activity:
    """Something that may take long, and that several threads may do at once.

    Args:
        words: what is going on, and how far it is; shown on a terminal once it has taken PATIENCE.
    """

    def __init__(self, words: Callable[[], str]) -> None:
        self._words = words
        self._lock = threading.Lock()
        self._active, self._since, self._before = 0, 0.0, 0.0

    @property
    def seconds(self) -> float:
        """On the wall, over all times that it went on."""
        with self._lock:
            return self._before + (time.monotonic() - self._since if self._active else 0.0)

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """While this is open, it goes on."""
        with self._lock:
            self._active += 1
            first = self._active == 1
            if first:
                self._since = time.monotonic()
        if first and on_terminal():
            threading.Thread(target=self._show, name="tf_stitch_progress", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._active -= 1
                if not self._active:
                    self._before += time.monotonic() - self._since

    def _show(self) -> None:
        since = self._since
        while self._active and self._since == since:
            took = time.monotonic() - since
            if took >= PATIENCE:
                with _voice.lock:
                    _write(f"{_ERASE}[tf_stitch] {self._words()}, {took:.0f} s")
                    _voice.shows = True
            time.sleep(_TICK)
        with _voice.lock:
            if _voice.shows:
                _write(_ERASE)
                _voice.shows = False


def on_terminal() -> bool:
    """Whether somebody sees stderr as it is written."""
    stream = _stream()
    return stream is not None and stream.isatty()


def _stream() -> TextIO | None:
    """None in programs without one, whatever its type says."""
    return sys.stderr


def _write(text: str) -> None:
    """At once, as one piece. The lock is held."""
    stream = _stream()
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):  # closed: nobody listens
            stream.write(text)
            stream.flush()
