"""Which kernels may share a launch with others that run at the same time (kernel packing)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.families.registry import family_of
from tf_stitch.ir.symbolic_dims import dimensions_of, typical
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.kernel_ir.occupancy import resident_together
from tf_stitch.kernel_ir.side_by_side import grid_of
from tf_stitch.libraries.call import BoundCall
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.placement.buffer_plan import Work
from tf_stitch.planning.cost_model import predict_together

PACKED_SHARED_BYTES = 40 * 1024
"""Of a block, up to which kernels of equal threads and clusters share a launch unasked: each block has those of the
member with most."""
MAX_PACKED_POINTERS = 480
"""Kernel parameters end at 4 KiB."""

Groups: TypeAlias = list[list[int]]


def pack(works: Sequence[Work], levels: Sequence[int], for_all_sizes: bool, device: DeviceSpec) -> Groups:
    """Kernel packing (FusionStitching section 5.1): kernels of one level share a launch, if their blocks have equal
    threads, clusters of equal size, and little shared memory or the same, while their parameters fit; where sizes
    change, if the same ones decide which kernels they are. Where sizes do not change, such packs become one if all its
    blocks find room at once, and that is predicted to take less time than one pack behind the other. Library calls and
    large kernels stand alone. Groups in the order they run."""
    most = MAX_PACKED_POINTERS // (2 if for_all_sizes else 1)  # sizes take room among the parameters too
    groups: dict[tuple[int, tuple[int, ...], int, tuple[str, ...]], Groups] = {}
    for i, work in enumerate(works):
        if isinstance(work, BoundCall):
            groups[levels[i], (), i, ()] = [[i]]
            continue
        if not work.program.grid:  # no elements: no work
            continue
        alone = i if stands_alone(work, device) else -1
        packs = groups.setdefault((levels[i], _block(work), alone, decided_by(work)), [[]])
        if packs[-1] and _pointers(works, (*packs[-1], i)) > most:
            packs.append([])
        packs[-1].append(i)
    found = sorted((pack for packs in groups.values() for pack in packs), key=lambda pack: (levels[pack[0]], pack[0]))
    return found if for_all_sizes else _Merging(works, device).merged(found, levels)


def _pointers(works: Sequence[Work], pack: Iterable[int]) -> int:
    return sum(len(works[i].arguments) for i in pack)


@dataclass
class _Merging:
    """Makes one launch of several, whose blocks have the shared memory, registers and clusters of those that have most.

    Attributes:
        known: predicted microseconds of launches.
    """

    works: Sequence[Work]
    device: DeviceSpec
    known: dict[tuple[Program, ...], float] = field(default_factory=dict)

    def merged(self, groups: Groups, levels: Sequence[int]) -> Groups:
        """Args:
            groups: launches and calls in the order they run.
        """
        by_level: dict[int, Groups] = {}
        for group in groups:
            by_level.setdefault(levels[group[0]], []).append(group)
        return [group for beside in by_level.values() for group in self._of_round(beside)]

    def _of_round(self, groups: Groups) -> Groups:
        """Of launches that need nothing of each other, again and again those two that gain most."""
        while True:
            gains = [(self._gain(groups[i], groups[j]), i, j) for i, j in combinations(range(len(groups)), 2)]
            gain, i, j = max(gains, default=(0.0, 0, 0))
            if gain <= 0 or gain < self.device.profile.choices.pack_us:
                return groups
            groups = [*groups[:i], sorted((*groups[i], *groups[j])), *groups[i + 1:j], *groups[j + 1:]]

    def _gain(self, one: Sequence[int], other: Sequence[int]) -> float:
        """Microseconds that one launch takes less than two, one behind the other; 0 if they cannot be one."""
        together = sorted((*one, *other))
        kernels = [work for i in together if isinstance(work := self.works[i], LoweredKernel)]
        clusters = {kernel.program.cluster for kernel in kernels} - {1}
        alone = len(kernels) < len(together) or any(stands_alone(kernel, self.device) for kernel in kernels)
        if alone or len(clusters) > 1 \
                or len({kernel.program.threads for kernel in kernels}) > 1 \
                or _pointers(self.works, together) > MAX_PACKED_POINTERS:
            return 0.0
        programs = [kernel.program for kernel in kernels]
        if grid_of(programs) > resident_together(programs, self.device) * self.device.processors:
            return 0.0  # others would begin when the first have ended, and read no weights before
        return self._us(one) + self._us(other) - self._us(together)

    def _us(self, numbers: Sequence[int]) -> float:
        programs = tuple(work.program for i in numbers if isinstance(work := self.works[i], LoweredKernel))
        if programs not in self.known:
            self.known[programs] = predict_together(programs, self.device).us
        return self.known[programs]


def _block(kernel: LoweredKernel) -> tuple[int, ...]:
    """What blocks of a pack have in common: threads, blocks of a cluster, and bytes of shared memory if many."""
    program, shared = kernel.program, kernel.shared_bytes
    return program.threads, program.cluster, shared if shared > PACKED_SHARED_BYTES else 0


def stands_alone(kernel: LoweredKernel, device: DeviceSpec) -> bool:
    """Whether a kernel shares its launch with no other: in a pack each of its blocks looks for its kernel among all."""
    domain = kernel.schedule.domain
    return kernel.program.alone or typical(domain.rows * domain.cols) >= device.profile.sizes.packed_elements


def decided_by(kernel: LoweredKernel) -> tuple[str, ...]:
    """Dimensions whose numbers decided by how many threads a row or a column is taken: others need another kernel. A
    launch of kernels that depend on different ones would be needed for every two of their numbers."""
    schedule = kernel.schedule
    along = None if schedule.groups else family_of(schedule).along
    return () if along is None else dimensions_of(along(schedule.domain))
