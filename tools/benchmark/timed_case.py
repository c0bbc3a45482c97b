"""A process whose turns are a row of a table."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping
from typing import Any

from tools.benchmark.workers import Result, Worker


class TimedCase:
    """A row with `backend` and what else names it; the process, until it failed; milliseconds of its turns."""

    def __init__(self, worker: Worker, **row: object) -> None:
        self.row: dict[str, object] = row
        self.times: list[float] = []
        self._worker: Worker | None = worker

    def ask(self, *words: object, limit: float) -> Mapping[str, Any] | None:
        """An answer of the process; None, and its error is in the row, if there is none."""
        if self._worker is None:
            return None
        try:
            return self._worker.ask(*words, limit=max(limit, 1))
        except (RuntimeError, TimeoutError) as error:
            self.row["median_ms"] = f"failed: {error}"
            self._worker = None
            return None

    def end(self) -> Result | None:
        """Ends the process; the row has its times. The report of tf_stitch, if there is one."""
        if self._worker is None or not self.times:
            return None
        self.row |= {"median_ms": round(statistics.median(self.times), 3), "least_ms": round(min(self.times), 3),
                     "most_ms": round(max(self.times), 3)}
        print(*self._worker.said(), sep="\n", file=sys.stderr)
        return self._worker.report()
