"""When a rewritten graph is gone for good, and what was kept for its regions can be freed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

LATER = (0.1, 0.5, 2.5, 12.5)
"""Seconds after which it is looked again whether functions are removed whose kernels are gone."""


@dataclass(frozen=True)
class _Graph:
    function: str
    regions: tuple[int, ...]


class Lifetimes:
    """Graphs of functions by their regions. A graph ends when no kernel runs any region of it any more, and TensorFlow
    has removed its function. Either alone does not tell: constant folding makes a kernel, runs it and frees it before
    the graph's own kernels are made; and kernels of a removed function may still run. Thread-safe.

    Functions that another graph calls should not be added: TensorFlow may run them under other names.

    Args:
        kernels: how many kernels run a region, of those that ever ran.
        is_function: whether TensorFlow has a function of that name.
        end: frees what was kept for regions.
    """

    def __init__(self, kernels: Callable[[int], int], is_function: Callable[[str], bool],
                 end: Callable[[Sequence[int]], None]) -> None:
        self._kernels, self._is_function, self._end = kernels, is_function, end
        self._graphs: dict[int, _Graph] = {}
        self._idle: set[_Graph] = set()  # no kernel runs any region
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def begin(self, name: str, regions: Sequence[int]) -> None:
        """The graph with these regions is about to run; it is left out if it is no function's."""
        if self._is_function(name):
            with self._lock:
                self._graphs.update(dict.fromkeys(regions, _Graph(name, tuple(regions))))
        self._end_idle()

    def left(self, region: int) -> None:
        """Some device has no kernel of a region any more."""
        with self._lock:
            graph = self._graphs.get(region)
            if graph is not None:
                self._idle.add(graph)
        self._end_idle()
        self._look_again(LATER)

    def _look_again(self, after: Sequence[float]) -> None:
        """Python removes a function a moment after its kernels are gone, and says so to nobody."""
        with self._lock:
            if not self._idle or not after or (self._timer is not None and self._timer.is_alive()):
                return
            self._timer = threading.Timer(after[0], self._later, (after[1:],))
            self._timer.daemon = True
            with contextlib.suppress(RuntimeError):  # no thread is to be had: the next graph that begins or ends looks
                self._timer.start()

    def _later(self, after: Sequence[float]) -> None:
        self._end_idle()
        with self._lock:
            self._timer = None
        self._look_again(after)

    def _end_idle(self) -> None:
        with self._lock:
            used = {graph for graph in self._idle if any(map(self._kernels, graph.regions))}
            self._idle -= used
            gone = [graph for graph in self._idle if not self._is_function(graph.function)]
            self._idle.difference_update(gone)
            for graph in gone:
                for number in graph.regions:
                    del self._graphs[number]
        for graph in gone:
            self._end(graph.regions)
