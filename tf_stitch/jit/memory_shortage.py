"""A region whose kernels had no memory, and the plan that takes less: planned again for what is free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.config import MemoryBudget
from tf_stitch.errors import StitchError
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_attrs import AssignAttrs
from tf_stitch.jit.placed_region import PlacedRegion
from tf_stitch.jit.region_builder import Built, RegionBuilder
from tf_stitch.jit.shape_family import Shapes
from tf_stitch.messages import mib
from tf_stitch.placement.executable import Executable
from tf_stitch.placement.executable_format import StateMode

SHRINKS = 0.75
"""Of an arena that had no place, though what is free is unknown, or as much should be: it may lie in pieces, or
another process may have it."""
MOST_NAMED = 3
"""Values that are named of those that take most."""


@dataclass(frozen=True)
class SmallerBuild:
    """A build that takes the place of one that had no memory, and what is said of it."""

    built: Built
    said: str


def smaller_build(builder: RegionBuilder, place: PlacedRegion, before: Built, shapes: Shapes, free: int | None
                  ) -> SmallerBuild:
    """A build for the same shapes that takes less.

    Args:
        free: bytes that could be handed out; None: unknown.

    Raises:
        StitchError: there is none; the message says what the region would need.
    """
    graph = place.without_empty_tensors(shapes)
    shortage = MemoryShortage(before.executable, graph, free)
    built, _ = builder.for_numbers(place, graph, shortage.require_less, shortage.budget)
    return SmallerBuild(built, shortage.text(built.executable))


@dataclass(frozen=True)
class MemoryShortage:
    """There was no memory for an executable's kernels.

    Attributes:
        before: the executable.
        graph: of its sizes.
        free: bytes that could be handed out; None: unknown.
    """

    before: Executable
    graph: TensorGraph
    free: int | None

    @cached_property
    def results(self) -> int:
        """Bytes of outputs, and of variables' new values that lie elsewhere than the old ones."""
        assigned: Mapping[str, int] = {node.attrs.handle: int(node.type.nbytes) for _, node in self.graph.outputs
                                       if isinstance(node.attrs, AssignAttrs)}
        fresh = (assigned[self.before.variables[i]] for i, mode in self.before.state if mode is StateMode.FRESH)
        return sum(int(output.nbytes) for output in self.before.outputs) + sum(fresh)

    @property
    def budget(self) -> MemoryBudget:
        """What the kernels' values may take at one time, so that an arena of them fits."""
        arena = self.before.arena_bytes
        room = arena if self.free is None else max(0, self.free - self.results)
        share = SHRINKS if room >= arena else room / arena
        return MemoryBudget(arena=int(share * self.before.live_bytes))

    def require_less(self, compiled: CompiledRegion) -> None:
        """
        Raises:
            StitchError: a plan takes no less than the one before, or more than there is; the message says what it
                takes, and what takes it.
        """
        less, live = compiled.executable, compiled.executable.live_bytes
        fits = self.free is None or live + self.results <= self.free
        if less.arena_bytes < self.before.arena_bytes and fits:
            return
        holders = [f"{node.loc.node or node.kind.value} {mib(nbytes)}"
                   for node, nbytes in compiled.memory.holders[:MOST_NAMED]]
        least = min(live, self.before.live_bytes) + self.results
        raise StitchError(f"its kernels need {mib(least)} at least beside variables and inputs{self._of_free}, "
                          f"{mib(self.results)} of them for results; most take {', '.join(holders) or 'results'}")

    def text(self, after: Executable) -> str:
        """What was done about it."""
        return (f"no memory for its kernels, which took {mib(self.before.arena_bytes)}, and {mib(self.results)} for "
                f"results{self._of_free}: planned again to take {mib(after.arena_bytes)}, by computing values twice")

    @property
    def _of_free(self) -> str:
        return "" if self.free is None else f", of {mib(self.free)} that are free"
