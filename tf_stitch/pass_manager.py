"""Runs passes, over TensorFlow graphs and tensor graphs; timing, dumping and verifying happen here and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

G = TypeVar("G")
"""What a pass works on: a GraphState or a TensorGraph."""


@dataclass(frozen=True)
class PassResult(Generic[G]):
    """The graph after a pass, and whether the pass changed it."""

    graph: G
    modified: bool


class Pass(Protocol[G]):
    """A small frozen value; its fields are its options."""

    @property
    def name(self) -> str:
        """Name in dumps and timings."""

    def run(self, graph: G) -> PassResult[G]:
        """The graph after the pass; the one given is left as it is."""


@dataclass
class Instrument(Generic[G]):
    """What to do around every pass.

    Attributes:
        after: called with (pass name, graph) when a pass modified the graph: a verifier, a dump.
        seconds: time spent in each pass.
    """

    after: Sequence[Callable[[str, G], None]] = ()
    seconds: dict[str, float] = field(default_factory=dict)


def run_passes(graph: G, passes: Sequence[Pass[G]], instrument: Instrument[G] | None = None) -> G:
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
