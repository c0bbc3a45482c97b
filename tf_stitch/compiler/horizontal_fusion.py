"""Kernels that share blocks by their threads (HFuse): which of a level a model proposes, and which of those that were
measured to be faster become one launch each. Nothing is fused that was not measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import combinations
from typing import TypeAlias

from tf_stitch.compiler.template_tuner import text_of
from tf_stitch.compiler.thread_partitions import Kernels, Partition, can_share, partition_of, partitions
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.placement.buffer_plan import Work
from tf_stitch.planning.cost_model import predict_us
from tf_stitch.planning.ilp_solver import solve
from tf_stitch.planning.measured_cost import measurement_key, saves
from tf_stitch.planning.measured_fusions import MeasuredFusion, MeasuredFusions
from tf_stitch.planning.selection import Selection

MOST_TOGETHER = 24
"""Kernels of a level that are looked at, the first ones: pairs grow with their square."""
MOST_KERNELS = 3
"""That share a block. Sets grow with this power, and so do partitions; each kernel needs 128 threads of 1024."""
SECONDS = 1.0
"""Of the integer program of a region."""

Numbers: TypeAlias = tuple[int, ...]
"""Places of kernels in a region's work, in order."""


@dataclass(frozen=True)
class Launches:
    """Launches of a region that hold one kernel each.

    Args:
        works, levels: kernels and library calls, and the level of each; those of one need nothing of each other.
        groups: of works that share a launch.
        aligned: every buffer starts at a multiple of 16 bytes.
    """

    works: Sequence[Work]
    levels: Sequence[int]
    groups: Sequence[Sequence[int]]
    device: DeviceSpec
    aligned: bool = True

    @cached_property
    def independent(self) -> list[list[int]]:
        """By level, those whose threads can be part of a block."""
        found: dict[int, list[int]] = {}
        for i, *others in self.groups:
            if not others and can_share(self.works[i], self.device):
                found.setdefault(self.levels[i], []).append(i)
        return [together[:MOST_TOGETHER] for together in found.values() if len(together) > 1]

    def kernels(self, numbers: Numbers) -> Kernels:
        found = tuple(work for i in numbers if isinstance(work := self.works[i], LoweredKernel))
        assert len(found) == len(numbers)
        return found

    def key(self, numbers: Numbers) -> str:
        """Names the kernels' patterns by structure and shapes."""
        return sha256(" ".join(self._names[i][0] for i in numbers).encode()).hexdigest()[:32]

    def templates(self, numbers: Numbers) -> tuple[str, ...]:
        """The templates of the kernels."""
        return tuple(self._names[i][1] for i in numbers)

    @cached_property
    def _names(self) -> dict[int, tuple[str, str]]:
        return {i: (measurement_key(kernel.schedule.pattern, self.aligned), text_of(kernel))
                for together in self.independent for i in together for kernel in self.kernels((i,))}

    def measured(self, numbers: Numbers, fusions: MeasuredFusions) -> MeasuredFusion | None:
        """What was measured of kernels as they are: with these templates."""
        record = fusions.get(self.key(numbers))
        return record if record is not None and record.kernels == self.templates(numbers) else None

    def faster(self, fusions: MeasuredFusions) -> dict[Numbers, MeasuredFusion]:
        """Sets that were measured to be faster in shared blocks: pairs, and one kernel more than such a set."""
        found: dict[Numbers, MeasuredFusion] = {}
        for together in self.independent if len(fusions) else ():
            sets = set[Numbers](combinations(together, 2))
            while sets:
                records = {numbers: self.measured(numbers, fusions) for numbers in sorted(sets)}
                here = {numbers: record for numbers, record in records.items() if record and record.is_faster}
                found |= here
                sets = {larger for numbers in here for larger in _with_one_more(numbers, together)}
        return found


def _with_one_more(numbers: Numbers, together: Sequence[int]) -> Iterator[Numbers]:
    if len(numbers) < MOST_KERNELS:
        yield from (tuple(sorted((*numbers, i))) for i in together if i not in numbers)


def proposals(launches: Launches, fusions: MeasuredFusions | None = None, beside: Numbers = ()
              ) -> list[tuple[float, Numbers]]:
    """Kernels that are predicted to gain in shared blocks and have not been measured, with the microseconds: the most
    first. A kernel may be in several: in pairs, and beside a set that was measured to be faster.

    Args:
        fusions: what was measured; None: nothing.
        beside: proposes sets with all of these alone.
    """
    device = launches.device
    alone = {i: predict_us(kernel.program, device)
             for together in launches.independent for i in together for kernel in launches.kernels((i,))}
    apart: dict[Numbers, float] = {numbers: sum(alone[i] for i in numbers)
             for together in launches.independent for numbers in combinations(together, 2)}
    for numbers, record in launches.faster(fusions).items() if fusions is not None else ():
        partition = _of_record(launches, numbers, record)
        if partition is not None:
            before = predict_us(partition.program, device)
            together = next(t for t in launches.independent if numbers[0] in t)
            for larger in _with_one_more(numbers, together):
                more = before + sum(alone[i] for i in larger if i not in numbers)
                apart[larger] = min(more, apart.get(larger, more))
    found = []
    for numbers, before in apart.items():
        if not set(beside) <= set(numbers):
            continue
        if fusions is None or launches.measured(numbers, fusions) is None:
            gain = before - _together_us(launches.kernels(numbers), device)
            if saves(before, before - gain):
                found.append((gain, numbers))
    return sorted(found, reverse=True)


def _together_us(kernels: Kernels, device: DeviceSpec) -> float:
    """Predicted, of the partition nearest to the kernels' own blocks."""
    partition = next(partitions(kernels, device), None)
    return float("inf") if partition is None else predict_us(partition.program, device)


def fused_launches(launches: Launches, fusions: MeasuredFusions) -> dict[Numbers, Partition]:
    """Disjoint sets of kernels that were measured to be faster in shared blocks: of all choices that which saves
    most, by the integer program that chooses patterns. Sets of one level close no cycle."""
    faster = launches.faster(fusions)
    possible = {numbers: partition for numbers, record in faster.items()
                if (partition := _of_record(launches, numbers, record)) is not None}
    problem = Selection(tuple(map(frozenset, possible)), tuple(faster[numbers].saved_us for numbers in possible),
                        len(launches.works), ())
    chosen: Mapping[int, Numbers] = dict(enumerate(possible))
    return {chosen[j]: possible[chosen[j]] for j in solve(problem, SECONDS).chosen}


def _of_record(launches: Launches, numbers: Numbers, record: MeasuredFusion) -> Partition | None:
    return partition_of(launches.kernels(numbers), record.threads, record.resident, launches.device)
