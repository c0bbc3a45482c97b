"""When a rewritten graph is gone for good, and what was kept for its regions can be freed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence


class Lifetimes:
    """Graphs by their regions. A graph ends when no kernel runs any of them any more: TensorFlow makes the kernels of a
    graph together, and a graph that it makes kernels of again has been offered again, with other regions: functions
    whose kernels were forgotten, that are loaded, that pipelines or other graphs call, sessions
    (tests/end_to_end/programs/made_again.py). That does not hold for functions that a graph calls and does not inline: these should not be added.
    Thread-safe.

    Args:
        kernels: how many kernels run a region, of those that ever ran.
        end: frees what was kept for regions.
    """

    def __init__(self, kernels: Callable[[int], int], end: Callable[[Sequence[int]], None]) -> None:
        self._kernels, self._end = kernels, end
        self._graphs: dict[int, tuple[int, ...]] = {}
        self._lock = threading.Lock()

    def begin(self, regions: Sequence[int]) -> None:
        """A graph with these regions is about to run."""
        with self._lock:
            self._graphs.update(dict.fromkeys(regions, tuple(regions)))

    def left(self, region: int) -> None:
        """Some device has no kernel of a region any more."""
        with self._lock:
            graph = self._graphs.get(region, ())
            if not graph or any(map(self._kernels, graph)):
                return
            for number in graph:
                del self._graphs[number]
        self._end(graph)
