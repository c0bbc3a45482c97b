"""Runs tensor passes; dumping, timing and verifying happen here and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tf_stitch.ir.graph import TensorGraph


@dataclass(frozen=True)
class PassResult:
    """The graph after a pass, and whether the pass changed it."""

    graph: TensorGraph
    modified: bool


class Pass(Protocol):
    """A small frozen value; its fields are its options."""

    @property
    def name(self) -> str:
        """Name in dumps and timings."""

    def run(self, graph: TensorGraph) -> PassResult:
        """The graph after the pass; the one given is left as it is."""


@dataclass
class Instrument:
    """What to do around every pass.

    Attributes:
        after: called with (pass name, graph) when a pass modified the graph: a verifier, a dump.
        seconds: time spent in each pass.
    """

    after: Sequence[Callable[[str, TensorGraph], None]] = ()
    seconds: dict[str, float] = field(default_factory=dict)


def run_passes(graph: TensorGraph, passes: Sequence[Pass], instrument: Instrument | None = None) -> TensorGraph:
    """The graph after all passes in order."""
    instrument = instrument or Instrument()
    for p in passes:
        start = time.perf_counter()
        result = p.run(graph)
        instrument.seconds[p.name] = instrument.seconds.get(p.name, 0.0) + time.perf_counter() - start
        graph = result.graph
        if result.modified:
            for call in instrument.after:
                call(p.name, graph)
    return graph
