"""Says how far a conversion is."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Lines on stderr; on a terminal the line of a step that goes on is written over."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._start = time.monotonic()
        self._said = 0.0
        self.seconds: dict[str, float] = {}
        self._step, self._began = "", self._start

    def step(self, words: str) -> None:
        """Another step begins."""
        now = time.monotonic()
        if self._step:
            self.seconds[self._step] = self.seconds.get(self._step, 0.0) + now - self._began
        self._step, self._began, self._said = words, now, now
        if words:
            self._line(words)

    def part(self, part: float) -> None:
        """So much of the step is done; said every two seconds at most."""
        now = time.monotonic()
        if now - self._said > 2.0 and part < 1:
            self._said = now
            self._line(f"{self._step}: {part:.0%}")

    def _line(self, words: str) -> None:
        print(f"[tf_stitch] {time.monotonic() - self._start:6.1f} s  {words}", file=self._stream, flush=True)
