"""How long rewriting a graph took."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from tf_stitch.graph.state import ImportCount


@dataclass(frozen=True)
class RewriteTiming:
    """How long a graph has taken since `start`, in seconds, of which the passes took `seconds`."""

    start: float
    seconds: Mapping[str, float]
    count: ImportCount

    @property
    def milliseconds(self) -> float:
        return round((time.perf_counter() - self.start) * 1e3, 3)

    @property
    def passes(self) -> dict[str, float]:
        """Milliseconds of each pass."""
        return {name: round(seconds * 1e3, 3) for name, seconds in self.seconds.items()}
