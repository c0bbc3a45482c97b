"""Schedules printed as templates: which levels of tiling each family has, and the numbers in them.

A dimension's levels are those of its index in the kernel, outermost first. Dimensions are those of the domain: rows and
columns; of a column reduction what is reduced, then what is kept; of a transpose those of its result that tiles cover;
where there are more, an outer one stands before. Every op of a kernel has the tiling of its dominant (AStitch section
4.3), so that the schedules of one template differ in S alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from tf_stitch.families.family import GRID, Layout, Slot
from tf_stitch.families.registry import family_of
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Scheme
from tf_stitch.schedule.op_labels import op_labels
from tf_stitch.schedule.schemes import value_schemes
from tf_stitch.templates import Level, LevelKind, OpSchedule, Template, Tiling

Numbers: TypeAlias = Mapping[str, int | None]
"""The extent of each slot; None: without a number."""


def layout_of(schedule: KernelSchedule) -> Layout:
    """The slots of a schedule that is not cooperative."""
    slots = family_of(schedule).tilings(schedule).slots
    return ((GRID,), *slots) if len(extents_of(schedule)) > len(slots) else slots


def extents_of(schedule: KernelSchedule) -> tuple[int, ...]:
    """The size of each dimension."""
    return family_of(schedule).extents(schedule)


def numbers_of(schedule: KernelSchedule) -> Numbers:
    """The extents of a schedule's slots. Grids and steps are as many as it takes; items are a loop or unrolled."""
    m = schedule.mapping
    return {"grid": None, "steps": None, "items": m.items or None, "beyond": m.beyond or 1, "waves": m.waves,
            "row_blocks": m.row_blocks, "at_once": m.threads // m.row_threads, "down": m.threads // m.row_threads,
            "row_threads": m.row_threads, "threads": m.threads, "vector": m.vector, "rows_per_block": m.rows_per_block,
            "tile": family_of(schedule).tilings(schedule).tile(schedule)}


def tilings_of(schedule: KernelSchedule) -> tuple[Tiling, ...]:
    """The levels of each dimension."""
    numbers = numbers_of(schedule)
    return tuple(tuple(_level(slot, schedule, numbers[slot.name]) for slot in dim
                       if slot.always or numbers[slot.name] != 1) for dim in layout_of(schedule))


def _level(slot: Slot, schedule: KernelSchedule, extent: int | None) -> Level:
    """Rows that a warp each takes are WARP's, blocks of a cluster CLUSTER's."""
    kind = slot.kind
    if slot.name == "at_once" and schedule.mapping.row_threads == schedule.mapping.warp:
        kind = LevelKind.WARP
    elif slot.name == "row_blocks" and schedule.mapping.cluster:
        kind = LevelKind.CLUSTER
    return Level(kind, None if extent is None else int(extent))


def template_of(schedule: KernelSchedule) -> Template:
    """The template of a schedule; of cooperative groups one after the other."""
    labels = op_labels(schedule.pattern)
    groups = [one for together in schedule.groups for one in together] or [schedule]
    return Template(tuple(op for group in groups for op in _op_schedules(group, labels)))


def _op_schedules(schedule: KernelSchedule, labels: Mapping[Node, str]) -> list[OpSchedule]:
    """The dominant, what stays in memory of the block, and what is written for every element."""
    tilings, shared = tilings_of(schedule), in_block_memory(schedule)
    elements = schedule.domain.rows * schedule.domain.cols
    outputs = [n for n in schedule.pattern.outputs if n.type.numel == elements]
    ops = dict.fromkeys([schedule.dominant, *shared, *outputs])
    return [OpSchedule(labels[node], tilings, node in shared) for node in ops]


def in_block_memory(schedule: KernelSchedule) -> list[Node]:
    """Values that go through memory of the block: staged rows and tiles, and reductions that several warps or blocks of
    a cluster share."""
    found = [s.node for s in schedule.staged if s.scheme is Scheme.REGIONAL]
    found += [node for node, scheme in value_schemes(schedule).items() if scheme in (Scheme.REGIONAL, Scheme.CLUSTER)]
    return list(dict.fromkeys(found))


def op_dims(schedule: KernelSchedule) -> tuple[int, ...]:
    """The dimensions of the dominant: of a reduction those of what it reduces."""
    node = schedule.dominant
    source = node.operands[0] if node.category is Category.REDUCTION else node
    return tuple(source.type.dims)
