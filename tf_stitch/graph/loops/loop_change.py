"""What a pass did to the loops of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tf_stitch.graph.state import GraphState


@dataclass(frozen=True)
class LoopChange:
    """
    Attributes:
        state: the graph afterwards; the one before if nothing changed.
        changed: loop -> how often its body was copied; None for a loop that became something else.
        stay: loop -> why it is as it was.
    """

    state: GraphState
    changed: Mapping[str, int | None] = field(default_factory=dict)
    stay: Mapping[str, str] = field(default_factory=dict)
