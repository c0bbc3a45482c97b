"""Sizes are read where they are known first, so that no node waits for work to be told one."""

from __future__ import annotations

from dataclasses import dataclass

from tf_stitch.graph.shapes.argument_sizes import read_sizes_from_arguments
from tf_stitch.graph.state import GraphState
from tf_stitch.pass_manager import PassResult


@dataclass(frozen=True)
class ReadSizesFromArguments:
    """See graph.shapes.argument_sizes."""

    name: str = "read_sizes_from_arguments"

    def run(self, state: GraphState) -> PassResult[GraphState]:
        after = read_sizes_from_arguments(state)
        return PassResult(after, after is not state)
