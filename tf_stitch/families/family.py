"""What a kernel family is: one shape of kernel, from the patterns that it takes to the loops that it makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping
from tf_stitch.templates import LevelKind

LOOP = 0
"""The extent of a THREAD without a number, where there may be a loop over what is left."""


class Slot(NamedTuple):
    """A level that a family's index has. Levels of one tile are not printed, unless `always`."""

    kind: LevelKind
    name: str
    always: bool = False


Layout: TypeAlias = tuple[tuple[Slot, ...], ...]
"""The slots of each dimension."""

GRID = Slot(LevelKind.GRID, "grid")
STEPS = Slot(LevelKind.THREAD, "steps")
ITEMS, VECTOR = Slot(LevelKind.THREAD, "items"), Slot(LevelKind.THREAD, "vector")
ACROSS = Slot(LevelKind.CTA, "row_threads", always=True)
BLOCK_ROWS = Slot(LevelKind.THREAD, "rows_per_block")
TILE = Slot(LevelKind.THREAD, "tile", always=True)


@dataclass(frozen=True)
class Request:
    """What a template asks of a kernel.

    Attributes:
        numbers: extents of slots; None: as the family has it.
        shared: values to keep in memory of the block; None: the template is for any op, and keeps all or none.
        keeps: whether such a template has S.
    """

    numbers: Mapping[str, int | None]
    shared: frozenset[Node] | None
    keeps: bool

    def extent(self, name: str, otherwise: int) -> int:
        extent = self.numbers[name]
        return otherwise if extent is None else extent

    def wants(self, node: Node) -> bool:
        """Whether a value is to be staged in memory of the block."""
        return self.keeps if self.shared is None else node in self.shared


def no_candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    """No candidates, for a family with one tiling."""
    return iter(())


def items(schedule: KernelSchedule) -> int:
    """What a task takes, if the family says nothing else."""
    return schedule.mapping.items


@dataclass(frozen=True)
class Tilings:
    """What a template may say of a schedule.

    Attributes:
        slots: of the last dimensions; one that stands before them is a grid's.
        retile: the schedule as requested, or ScheduleError.
        candidates: templates as text; some of them turn out to be impossible when they are applied.
        tile: elements of a dimension that a task takes, where there is such a slot.
    """

    slots: Layout
    retile: Callable[[KernelSchedule, Request, DeviceSpec], KernelSchedule]
    candidates: Callable[[KernelSchedule, DeviceSpec], Iterator[str]] = no_candidates
    tile: Callable[[KernelSchedule], int] = items


def by_threads(blocks: Tilings, tasks: Tilings) -> Callable[[KernelSchedule], Tilings]:
    """The tilings of a schedule: `blocks` of threads, or `tasks` of one thread."""
    return lambda schedule: blocks if schedule.in_blocks else tasks


def rows_and_columns(schedule: KernelSchedule) -> tuple[int, ...]:
    """The dimensions of most schedules."""
    return schedule.domain.rows, schedule.domain.cols


@dataclass(frozen=True)
class KernelFamily:
    """Adding one is a module that makes such a value, and its name in families/registry.py.

    Attributes:
        name: as schedules, goldens and reports have it.
        propose: schedules of a pattern, best first, or ScheduleError that says why there are none. Asked of a pattern,
            a device, and whether every buffer starts at a multiple of 16 bytes.
        lower: the kernel of a schedule, or ScheduleError if the pattern turns out not to be local to it.
        tilings: what templates may say of a schedule.
        extents: the size of each dimension of a schedule, the outermost first.
        matmuls: it takes patterns with matmuls, and none without.
        one_order: terms are added in the same order whatever a schedule's tiles, and whatever else the kernel computes.
        in_place: one thread writes an element, after every thread that needs it has read it, at one index.
        along: the dimension of a domain whose size decides how many threads take it, if one does.
        with_threads: the mapping with blocks of as many threads, whole warps, or ScheduleError. With it a kernel can be
            fused with others behind grid barriers, or share blocks.
        with_items: the schedule with threads that make this many accesses each, under way together.
    """

    name: str
    propose: Callable[[Pattern, DeviceSpec, bool], list[KernelSchedule]]
    lower: Callable[[KernelSchedule], LoweredKernel]
    tilings: Callable[[KernelSchedule], Tilings]
    extents: Callable[[KernelSchedule], tuple[int, ...]] = rows_and_columns
    matmuls: bool = False
    one_order: bool = False
    in_place: bool = False
    along: Callable[[Domain], int] | None = None
    with_threads: Callable[[KernelSchedule, int], ThreadMapping] | None = None
    with_items: Callable[[KernelSchedule, int], KernelSchedule] | None = None


def keep(schedule: KernelSchedule, request: Request, slot: str, number: int, what: str) -> None:
    """Refuses another number where the pattern or the lowering decides it.

    Raises:
        ScheduleError: the template has another.
    """
    if request.extent(slot, number) != number:
        raise ScheduleError(f"{request.numbers[slot]} {what}: here they are {number}", schedule.dominant.loc)


def mapped(schedule: KernelSchedule, **changes: Any) -> KernelSchedule:
    """The schedule with another mapping.

    Raises:
        ScheduleError: blocks that are no whole warps.
    """
    mapping: ThreadMapping = replace(schedule.mapping, **changes)
    threads = mapping.threads
    if schedule.in_blocks and threads % mapping.warp and threads != schedule.mapping.threads:
        raise ScheduleError(f"a block of {threads} threads; warps have {mapping.warp}", schedule.dominant.loc)
    return replace(schedule, mapping=mapping)


def whole_rows(schedule: KernelSchedule, threads: int) -> None:
    """Refuses blocks that would split those who share a row.

    Raises:
        ScheduleError: the threads are no multiple of a row's.
    """
    if threads % schedule.mapping.row_threads:
        raise ScheduleError(f"blocks of {threads} threads, of which {schedule.mapping.row_threads} share a row",
                            schedule.dominant.loc)


def fixed(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    """The schedule of a family with one tiling and nothing to refuse."""
    return schedule
