"""A part of a region that is planned by itself: its nodes, what they need, and the times of patterns among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tf_stitch.device.profile import DeviceProfile
from tf_stitch.ir.graph import Node
from tf_stitch.libraries.call import Library
from tf_stitch.planning.dependence import Edge
from tf_stitch.planning.pattern import Pattern

OPTIMISM = 0.7
"""Factor of estimates, once exact times have corrected them: a pattern that looks a little worse is looked at, too."""
ENOUGH = 3
"""Patterns timed exactly from which the scale of estimates is believed."""


class PatternTimes(Protocol):
    """Predicted microseconds of a pattern as one kernel; None if it cannot be one."""

    @property
    def least_us(self) -> float:
        """What every kernel of several nodes takes: a launch."""

    @property
    def profile(self) -> DeviceProfile:
        """The profile of the device that these times are for."""

    def estimate(self, pattern: Pattern) -> float | None:
        """From bytes and operations alone; None if no kernel family proposes anything. Cheap."""

    def exact(self, pattern: Pattern) -> float | None:
        """From the kernel itself, which is scheduled and lowered."""


@dataclass(frozen=True)
class RegionFacts:
    """What a pattern needs to know of the whole region.

    Attributes:
        users: of every node.
        wanted: live-out values.
        free: nodes that any kernel may recompute.
        libraries: whose calls can compute nodes in place of kernels.
    """

    users: dict[Node, list[Node]]
    wanted: frozenset[Node]
    free: frozenset[Node]
    libraries: tuple[Library, ...]


class Part:
    """Sets of its nodes are bit masks: bit i is the node at position i.

    Args:
        nodes: operands first.
        edges: (before, after) between positions, data and control; acyclic.

    Attributes:
        tie_us: predicted times that differ by less are the same.
        nodes_timed: of the patterns whose exact times were asked for, a node counted for each: what planning takes,
            without a clock.
    """

    def __init__(self, nodes: Sequence[Node], edges: Sequence[Edge], facts: RegionFacts, times: PatternTimes) -> None:
        self.nodes, self.edges, self.facts = list(nodes), list(edges), facts
        self._times = times
        self.least_us, self.tie_us = times.least_us, times.profile.choices.tie_us
        self.nodes_timed = 0
        self._estimates: dict[int, float | None] = {}
        self._exact: dict[int, float | None] = {}
        self._scale = self._fused_scale = 1.0  # of all estimates, and of those of patterns beside
        self._singles: list[float] = []  # times of single nodes, from the first gain on
        self.before: list[list[int]] = [[] for _ in self.nodes]
        self.after: list[list[int]] = [[] for _ in self.nodes]
        for a, b in self.edges:
            self.before[b].append(a)
            self.after[a].append(b)
        self._near = [mask_of(a) | mask_of(b) for a, b in zip(self.before, self.after, strict=True)]
        self._traffic = _Traffic(self.nodes, facts)
        self._above = _reachable(self.before, range(len(self.nodes)))
        self._below = _reachable(self.after, reversed(range(len(self.nodes))))

    @property
    def everything(self) -> int:
        return (1 << len(self.nodes)) - 1

    def within(self, positions: Sequence[int]) -> Part:
        """The part of some of its nodes, which have no other between them."""
        place = {p: i for i, p in enumerate(positions)}
        return Part([self.nodes[p] for p in positions],
                    [(place[a], place[b]) for a, b in self.edges if a in place and b in place], self.facts, self._times)

    def pattern(self, mask: int) -> Pattern:
        nodes = tuple(self.nodes[i] for i in bits(mask))
        return Pattern(nodes, tuple(self.nodes[i] for i in self._traffic.written(mask)), self.facts.free)

    def traffic(self, mask: int) -> int:
        """Bytes that a kernel of these nodes reads and writes, each value once."""
        return self._traffic.of(mask)

    def separate(self, mask: int) -> int:
        """Bytes that the nodes move as kernels of their own."""
        return sum(self._traffic.single[i] for i in bits(mask))

    def hull(self, mask: int) -> Hull:
        """For questions about `mask` and one node more."""
        above = below = 0
        for i in bits(mask):
            above |= self._above[i]
            below |= self._below[i]
        return Hull(mask, above, below, self._above, self._below)

    def neighbours(self, mask: int) -> int:
        """Producers and consumers of the nodes in `mask` that are not in it."""
        near = 0
        for i in bits(mask):
            near |= self._near[i]
        return near & ~mask

    def estimate(self, mask: int) -> float | None:
        """Microseconds as one kernel, estimated."""
        if mask not in self._estimates:
            self._estimates[mask] = self._times.estimate(self.pattern(mask))
        found = self._estimates[mask]
        return None if found is None else found * self._scale * (self._fused_scale if mask & (mask - 1) else 1.0)

    def exact(self, mask: int) -> float | None:
        """Microseconds as one kernel, from its program."""
        if mask not in self._exact:
            self._exact[mask] = self._times.exact(self.pattern(mask))
            self.nodes_timed += mask.bit_count()
        return self._exact[mask]

    def confirm(self, masks: Iterable[int], scale: bool = True) -> None:
        """Computes exact times of patterns, and scales the estimates of the others by what they show if `scale`."""
        for mask in masks:
            self.exact(mask)
        self._singles = []
        if not scale:
            return
        both = [(exact, guess) for mask, exact in self._exact.items() if mask & (mask - 1)
                and exact is not None and (guess := self._estimates.get(mask)) is not None]
        if len(both) >= ENOUGH:
            seen = sum(exact for exact, _ in both) / (sum(guess for _, guess in both) * self._scale)
            self._fused_scale = max(1.0, seen * OPTIMISM)

    def is_exact(self, mask: int) -> bool:
        return mask in self._exact

    def time(self, mask: int) -> float | None:
        """The exact time where it is known, else the estimate."""
        return self._exact[mask] if mask in self._exact else self.estimate(mask)

    def gain(self, mask: int) -> float | None:
        """Microseconds that one kernel saves against a kernel for each node, and `tie_us` for every kernel less; None
        if it cannot be one."""
        whole = self.time(mask)
        if whole is None:
            return None
        if not self._singles:
            self._singles = [self.time(1 << i) or 0.0 for i in range(len(self.nodes))]
        return sum(self._singles[i] for i in bits(mask)) - whole + self.tie_us * (mask.bit_count() - 1)

    def calibrate(self, most: int) -> None:
        """Computes the exact times of single nodes, of `most` at most, and scales the estimates by what they show. The
        times of nodes that end up inside a pattern do not matter: every plan has their sum in its gain."""
        exact = estimated = 0.0
        for i in range(0, len(self.nodes), -(-len(self.nodes) // most)):
            guess, time = self.estimate(1 << i), self.exact(1 << i)
            if guess is not None and time is not None:
                exact += time
                estimated += guess
        if estimated:
            self._scale = exact / estimated
        self._singles = []


class Hull(NamedTuple):
    """A convex set with all that is above and below its nodes."""

    mask: int
    above: int
    below: int
    above_of: list[int]
    below_of: list[int]

    def takes(self, node: int) -> bool:
        """Whether the set is convex with `node` in it."""
        between = (self.above | self.above_of[node]) & (self.below | self.below_of[node])
        return not between & ~(self.mask | 1 << node)


class _Traffic:
    """Bytes of sets of nodes, by numbers alone: as Pattern.reads and outputs have it, many times faster."""

    def __init__(self, nodes: Sequence[Node], facts: RegionFacts) -> None:
        position = {n: i for i, n in enumerate(nodes)}
        self._bytes: list[int] = [n.type.nbytes for n in nodes]  # of values by number; the nodes' own first
        self._reads: list[list[int]] = []
        self._users = [0] * len(nodes)
        self._leaves = [n in facts.wanted for n in nodes]
        number: dict[Node, int] = {}
        for node in nodes:
            values: dict[int, None] = {}
            for value in _values_read(node, facts.free):
                if value in position and value not in facts.free:
                    values[position[value]] = None
                else:
                    if value not in number:
                        number[value] = len(self._bytes)
                        self._bytes.append(value.type.nbytes)
                    values[number[value]] = None
            self._reads.append(list(values))
        for i, node in enumerate(nodes):
            for user in _kernels_that_use(node, facts):
                if user in position:
                    self._users[i] |= 1 << position[user]
                else:
                    self._leaves[i] = True
        self.single = [self.of(1 << i) for i in range(len(nodes))]

    def written(self, mask: int) -> list[int]:
        """Places of the nodes whose values are needed outside."""
        others = ~mask
        return [i for i in bits(mask) if self._leaves[i] or self._users[i] & others]

    def of(self, mask: int) -> int:
        read = {v for i in bits(mask) for v in self._reads[i] if not mask >> v & 1}
        return sum(self._bytes[i] for i in self.written(mask)) + sum(self._bytes[v] for v in read)


def _values_read(node: Node, free: frozenset[Node]) -> Iterator[Node]:
    for operand in dict.fromkeys(node.operands):
        if operand in free:
            yield from _values_read(operand, free)
        else:
            yield operand


def _kernels_that_use(node: Node, facts: RegionFacts) -> Iterator[Node]:
    for user in facts.users[node]:
        if user in facts.free and user not in facts.wanted:
            yield from _kernels_that_use(user, facts)
        else:
            yield user


def bits(mask: int) -> Iterator[int]:
    """Positions in a mask, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_of(positions: Iterable[int]) -> int:
    mask = 0
    for i in positions:
        mask |= 1 << i
    return mask


def _reachable(neighbours: Sequence[Sequence[int]], order: Iterable[int]) -> list[int]:
    """Masks of what each node reaches; `order` has neighbours first."""
    reached = [0] * len(neighbours)
    for i in order:
        for j in neighbours[i]:
            reached[i] |= reached[j] | 1 << j
    return reached
