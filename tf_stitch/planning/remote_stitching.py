"""Remote stitching (AStitch section 4.1): regions that do not depend on each other become one op, as long as that costs
less than it saves and keeps little more memory alive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tf_stitch.device.profile import DeviceProfile
from tf_stitch.planning.acyclic_contraction import AcyclicContraction

PEAK = 1.05
"""Peak memory that remote stitching may lead to, against the graph without it."""
SLACK_BYTES = 1 << 20
"""Bytes that do not count: less than what an allocator rounds up."""
HOT = 0.25
"""Part of a value that the caches still hold when its only reader runs next. Assumed, as what TensorFlow
runs in between is unknown."""


@dataclass(frozen=True)
class RegionNode:
    """One TensorFlow node as region identification sees it.

    Attributes:
        inputs: names of nodes whose data it reads.
        controls: names of nodes it has to follow.
        place: device, loop frame and conditional branch; None for a node that no region may hold.
        weight: 0 for a node that costs nothing by itself.
        sink: an update of state: nobody waits for its data.
        nbytes: bytes that its results take, 0 if unknown or none (a variable that is read, a constant).
        result_bytes: bytes of its results, whoever has them; 0 if unknown.
    """

    name: str
    inputs: tuple[str, ...]
    controls: tuple[str, ...]
    place: tuple[object, ...] | None
    weight: int
    sink: bool = False
    nbytes: int = 0
    result_bytes: int = 0


Profiles = Mapping[str, DeviceProfile]
"""Of "CPU" and "GPU"."""


def saved_us(profile: DeviceProfile) -> float:
    """What one op less saves: the executor's work, a launch, and on a CPU handing a loop to the other cores."""
    return profile.op_us + profile.handover_us


def profile_of(place: tuple[object, ...] | None, profiles: Profiles) -> DeviceProfile:
    """The profile of the device that a place names."""
    return profiles["GPU" if place is not None and "GPU" in str(place[0]) else "CPU"]


def memory_us(profile: DeviceProfile, nbytes: int) -> float:
    """What reading or writing values takes that no cache holds."""
    rate = profile.bandwidth[-1][1]  # of a CPU: of one core
    return nbytes / (rate * profile.all_cores if profile.per_core else rate) / 1e3


def late_us(profile: DeviceProfile, nbytes: int) -> float:
    """What reading a value from memory takes longer than from the cache that it fits in."""
    cache = max((rate for size, rate in profile.bandwidth if size >= nbytes), default=profile.bandwidth[-1][1])
    if profile.per_core:
        cache *= profile.processors
    return max(memory_us(profile, nbytes) - nbytes / cache / 1e3, 0.0)


def stitch_remote(nodes: Sequence[RegionNode], groups: AcyclicContraction[str], profiles: Profiles) -> None:
    """Merges groups that update state with each other, and other groups with those that wait for equally many working
    nodes of no region, so that none has to wait for a later one.

    Args:
        nodes: in topological order over inputs and controls.
        groups: of their names; groups with a place are regions.
        profiles: what the devices were measured to do.
    """
    memory = LiveBytes(nodes)
    by_name = {n.name: n for n in nodes}
    depth = _depths(nodes)
    current: dict[tuple[object, ...], str] = {}
    seen: set[str] = set()
    readers: Counter[str] = Counter(p for n in nodes for p in dict.fromkeys(n.inputs))
    for node in nodes:
        if node.place is None or node.name in seen:
            continue
        members = [by_name[m] for m in groups.members(node.name)]
        seen.update(m.name for m in members)
        if not any(m.weight for m in members):
            continue
        if any(m.sink for m in members):
            key: tuple[object, ...] = (node.place, "update")
        elif all(m.nbytes or not m.weight for m in members):
            key = (node.place, max(depth[m.name] for m in members))
        else:  # sizes known at run time only: one more reason to build again is not worth a launch
            continue
        known = current.get(key)
        current[key] = node.name
        if known is None or groups.find(known) == groups.find(node.name):
            continue
        one, other = groups.members(known), groups.members(node.name)
        if not _pays(other, by_name, readers, profiles) or not memory.allows(one, other):
            continue
        union = [*one, *other]
        if groups.merge(known, node.name):
            memory.merged(union)


def _depths(nodes: Sequence[RegionNode]) -> dict[str, int]:
    """Working nodes of no region in sequence before each node."""
    depth: dict[str, int] = {}
    heavy: dict[str, bool] = {}
    for node in nodes:
        depth[node.name] = max((depth[p] + heavy[p] for p in (*node.inputs, *node.controls)), default=0)
        heavy[node.name] = node.place is None and node.weight > 0 and bool(node.inputs)
    return depth


def _pays(members: Sequence[str], by_name: dict[str, RegionNode], readers: Counter[str], profiles: Profiles) -> bool:
    """Whether an op less saves more than it costs to read late what nothing but this region reads."""
    profile = profile_of(by_name[members[0]].place, profiles)
    inside = set(members)
    read = {p for m in members for p in by_name[m].inputs if p not in inside}
    late = sum(late_us(profile, by_name[p].nbytes) for p in read if readers[p] == 1)
    return HOT * late < saved_us(profile)


class LiveBytes:
    """Bytes alive at each place of the topological order, as TensorFlow keeps values: from their op to their last
    reader. A region of several parts runs when the last of its inputs is there, and keeps the others until then."""

    def __init__(self, nodes: Sequence[RegionNode]) -> None:
        self._position = {n.name: i for i, n in enumerate(nodes)}
        self._node = {n.name: n for n in nodes}
        self._nbytes = [n.nbytes for n in nodes]
        self._until = list(range(len(nodes)))
        for i, node in enumerate(nodes):
            for p in node.inputs:
                self._until[self._position[p]] = i
        change = np.zeros(len(nodes) + 1, np.int64)
        for i, node in enumerate(nodes):
            if not node.sink:
                change[i] += node.nbytes
                change[self._until[i] + 1] -= node.nbytes
        self._alive = np.cumsum(change)
        peak = int(self._alive.max(initial=0))
        self._limit = max(PEAK * peak, peak + SLACK_BYTES)

    @property
    def peak(self) -> int:
        return int(self._alive.max(initial=0))

    def allows(self, one: Sequence[str], other: Sequence[str]) -> bool:
        """Whether memory stays within the limit if two regions run as one."""
        trial = self._alive.copy()
        for start, stop, nbytes in self._kept_longer([*one, *other]):
            trial[start:stop] += nbytes
        return bool(trial.max(initial=0) <= self._limit)

    def merged(self, members: Sequence[str]) -> None:
        """Takes note that these are one region now."""
        for start, stop, nbytes in self._kept_longer(members):
            self._alive[start:stop] += nbytes
        for p, runs in self._inputs(members):
            self._until[p] = max(self._until[p], runs)

    def _inputs(self, members: Sequence[str]) -> list[tuple[int, int]]:
        """(place of an input, place where the region runs)."""
        inside = set(members)
        read = {self._position[p] for m in members for p in self._node[m].inputs if p not in inside}
        runs = max(read, default=0)
        return [(p, runs) for p in sorted(read)]

    def _kept_longer(self, members: Sequence[str]) -> list[tuple[int, int, int]]:
        """(start, stop, bytes) of the region's inputs beyond their life so far."""
        return [(self._until[p] + 1, runs + 1, self._nbytes[p]) for p, runs in self._inputs(members)
                if runs > self._until[p]]
