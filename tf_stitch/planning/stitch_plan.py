"""The fusion plan: the patterns of a region in an order in which they can run."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.libraries.call import Library
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.pattern import Pattern, make_pattern
from tf_stitch.planning.solver_report import SolverReport


@dataclass
class StitchPlan:
    """Patterns in an order in which they can run, covering every node with work in it.

    Attributes:
        libraries: whose calls some of the patterns are.
    """

    graph: TensorGraph
    patterns: list[Pattern]
    solver: SolverReport | None = None
    free: frozenset[Node] = field(default_factory=frozenset)
    libraries: tuple[Library, ...] = LIBRARIES

    def split(self, pattern: Pattern) -> list[Pattern]:
        """Puts a pattern for each node in place of one that turned out to be no kernel, and returns these."""
        singles = self.singles(pattern)
        at = self.patterns.index(pattern)
        self.patterns[at:at + 1] = singles
        return singles

    def singles(self, pattern: Pattern) -> list[Pattern]:
        """Splits a pattern into single-node patterns."""
        users, wanted = self._facts
        return [make_pattern((node,), users, wanted, self.free) for node in pattern.nodes]

    @cached_property
    def _facts(self) -> tuple[dict[Node, list[Node]], frozenset[Node]]:
        return users_of(self.graph.nodes()), frozenset(live_out(self.graph))
