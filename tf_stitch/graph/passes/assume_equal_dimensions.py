"""Dimensions that are broadcast to each other are assumed equal, and regions check that."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.graph.shapes.equal_dimensions import assume_equal_dimensions
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult


@dataclass(frozen=True)
class AssumeEqualDimensions:
    """See graph.shapes.equal_dimensions."""

    name: str = "assume_equal_dimensions"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        after = assume_equal_dimensions(state)
        return PassResult(after, after is not state)
