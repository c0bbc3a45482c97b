"""Memory that a region's own TensorFlow nodes take, and whether they may run beside what is in use, before or beside
the region's kernels: so that a program takes the memory of one form of a step, never of two."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tf_stitch.errors import StitchError
from tf_stitch.ir.graph import Node, TensorGraph, view_of
from tf_stitch.ir.op_kinds import NO_MEMORY, Category, OpKind
from tf_stitch.jit.build_budget import POLL_SECONDS, BuildBudget, wait_until_built
from tf_stitch.jit.build_key import Key
from tf_stitch.messages import mib
from tf_stitch.native.bindings import DeviceMemory
from tf_stitch.placement.executable import Executable

NEGLIGIBLE = 64 << 20
"""Bytes that TensorFlow's own ops may take beyond the kernels': small steps need not wait for theirs."""
SHARE = 0.05
"""Of what the settled step takes, by which the first steps may take more."""
MOST_ESTIMATES = 8
"""Of a region: an estimate takes some 0.1 s for 2,000 nodes, and a program may have a size for each word it decodes.
Later sizes count as the largest so far."""
_OUTSIDE = (OpKind.INPUT, OpKind.VARIABLE, OpKind.ASSIGN)

Build = tuple[int, int, Key]
"""Number of a region, ordinal of its device, and its signature."""


def fallback_bytes(graph: TensorGraph) -> int:
    """Bytes that a region's own TensorFlow nodes have alive at once, results included: an estimate, of nodes that run
    in the order of the graph.

    TensorFlow keeps a value from the node that computes it to the last that reads it. Values inside one of its nodes
    (several of tensor IR may stand for it) are not in memory. An elementwise op writes over an operand that nobody
    reads later. Scratch memory of libraries is not counted.

    Args:
        graph: without symbols.
    """
    nodes = graph.nodes()
    results = {view_of(node) for _, node in graph.outputs if node.kind is not OpKind.ASSIGN}
    last: dict[Node, int] = {}
    crossing: set[Node] = set(results)
    for at, node in enumerate(nodes):
        for operand in map(view_of, node.operands):
            last[operand] = at
            if operand.loc.node != node.loc.node or not node.loc.node:
                crossing.add(operand)

    def size(node: Node) -> int:
        inside = node.kind in NO_MEMORY or node.kind in _OUTSIDE or node not in crossing or view_of(node) is not node
        return 0 if inside else int(node.type.nbytes)

    alive = most = 0
    for at, node in enumerate(nodes):
        gone = [o for o in dict.fromkeys(map(view_of, node.operands)) if last[o] == at and o not in results]
        freed = sum(map(size, gone))
        over = max(map(size, gone), default=0) if node.category is Category.ELEMENTWISE else 0
        most = max(most, alive + size(node) - min(over, size(node)))
        alive += size(node) - freed
    return most


def kernel_bytes(executable: Executable) -> int:
    """Bytes that a run of a region's kernels allocates: arena and outputs, without scratch memory of libraries."""
    return executable.arena_bytes + sum(int(output.nbytes) for output in executable.outputs)


class FallbackMemory:
    """What the nodes and the kernels of regions take, on devices whose memory is limited. Thread-safe.

    Args:
        bound: a region's graph for the shapes of a signature.
        patience: seconds that the steps of a graph wait for kernels, where TensorFlow's own ops would fit but take
            more memory than these.
    """

    def __init__(self, bound: Callable[[int, Key], TensorGraph], patience: float = 60.0) -> None:
        self._bound, self._patience = bound, patience
        self._devices: dict[int, DeviceMemory] = {}
        self._own: dict[Build, int] = {}
        self._planned: dict[Build, int] = {}
        self._known = threading.Condition()

    def saw(self, device: int, memory: DeviceMemory) -> None:
        """A device's memory, as it was a moment ago."""
        with self._known:
            if memory.limit:
                self._devices[device] = memory

    def planned(self, place: Build, executable: Executable) -> None:
        """The kernels of a signature are planned, though perhaps not built."""
        with self._known:
            if place[1] in self._devices:
                self._planned[place] = kernel_bytes(executable)
                self._known.notify_all()

    def own(self, place: Build) -> int:
        """What the region's own nodes take; 0 where the device's memory is not limited, or nothing is known."""
        if place[1] not in self._devices:
            return 0
        known = self._own.get(place)
        if known is None:
            with self._known:
                others = [own for other, own in self._own.items() if other[:2] == place[:2]]
            known = max(others) if len(others) >= MOST_ESTIMATES else self._estimate(place)
            with self._known:
                self._own[place] = known
        return known

    def _estimate(self, place: Build) -> int:
        try:
            return fallback_bytes(self._bound(place[0], place[2]))
        except StitchError:  # the region's build meets it, too, and says it
            return 0

    def wait(self, place: Build, build: Future[Any], budget: BuildBudget, say: Callable[[str], None]) -> None:
        """Returns when a build has ended; or when the budget is spent and the region's own nodes may run meanwhile.

        Args:
            say: is told why a call waits beyond its budget, if it does.
        """
        begun = time.monotonic()
        if self.has_to_wait(place, build) and not build.done():
            say(self.why_not(place))
            if not self.fits(place):
                return wait_until_built(build)
            budget.allow(self._patience - (time.monotonic() - begun))
        return budget.wait(build)

    def has_to_wait(self, place: Build, build: Future[Any]) -> bool:
        """Whether a call has to wait for its kernels, since the region's own nodes take too much memory meanwhile.
        Returns when that is known: when the kernels are planned, or `build` is done; or, if the nodes fit, when the
        patience has run out."""
        if self.own(place) <= NEGLIGIBLE:
            return False
        build.add_done_callback(lambda _: self._wake())
        end = time.monotonic() + self._patience if self.fits(place) else float("inf")
        with self._known:
            while place not in self._planned and not build.done() and time.monotonic() < end:
                self._known.wait(POLL_SECONDS)
        return bool(self.why_not(place))

    def fits(self, place: Build) -> bool:
        """Whether the region's own nodes take half of what is free at most."""
        memory = self._devices.get(place[1])
        return memory is None or 2 * self.own(place) <= memory.free

    def why_not(self, place: Build) -> str:
        """Why the region's own nodes must not run while its kernels are there or will be; "" if they may."""
        memory, own = self._devices.get(place[1]), self.own(place)
        if memory is None or own <= NEGLIGIBLE:
            return ""
        kernels = self._planned.get(place, 0)
        settled = memory.in_use + kernels
        if own > kernels + max(NEGLIGIBLE, SHARE * settled):
            return f"they would take {mib(own, 0)}, the kernels {mib(kernels, 0)}"
        if not self.fits(place):
            return f"they would take {mib(own, 0)}, of {mib(memory.free, 0)} that are free"
        return ""

    def drop(self, number: int) -> None:
        """Forgets a region."""
        with self._known:
            for kept in (self._own, self._planned):
                for place in [place for place in kept if place[0] == number]:
                    del kept[place]

    def _wake(self) -> None:
        with self._known:
            self._known.notify_all()
