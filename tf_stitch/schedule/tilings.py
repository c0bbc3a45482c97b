"""Schedules printed as templates: which levels of tiling each rule has, and the numbers in them.

A dimension's levels are those of its index in the kernel, outermost first. Dimensions are those of the domain: rows and
columns; of a column reduction what is reduced, then what is kept; of a transpose those of its result that tiles cover;
where there are more, an outer one stands before. Every op of a kernel has the tiling of its dominant (AStitch section
4.3), so that the schedules of one template differ in S alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import Category
from tf_stitch.planning.stitch_plan import Pattern
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Rule, Scheme
from tf_stitch.schedule.rules.transpose import TILE, tile_axes
from tf_stitch.schedule.schemes import value_schemes
from tf_stitch.schedule.templates import Level, LevelKind, OpSchedule, Template, Tiling


class Slot(NamedTuple):
    """A level that a rule's index has. Levels of one tile are not printed, unless `always`."""

    kind: LevelKind
    name: str
    always: bool = False


Layout: TypeAlias = tuple[tuple[Slot, ...], ...]
"""The slots of each dimension."""
Numbers: TypeAlias = Mapping[str, int | None]
"""The extent of each slot; None: without a number."""

_GRID = Slot(LevelKind.GRID, "grid")
_STEPS = Slot(LevelKind.THREAD, "steps")
_ITEMS, _VECTOR = Slot(LevelKind.THREAD, "items"), Slot(LevelKind.THREAD, "vector")
_ACROSS = Slot(LevelKind.CTA, "row_threads", always=True)
_TILE = Slot(LevelKind.THREAD, "tile", always=True)

_GPU: Mapping[Rule, Layout] = {
    Rule.ROW: ((_GRID, Slot(LevelKind.THREAD, "waves"), Slot(LevelKind.CTA, "at_once")),
               (_ITEMS, Slot(LevelKind.THREAD, "beyond"), Slot(LevelKind.GRID, "row_blocks"), _ACROSS, _VECTOR)),
    Rule.MIXED: ((_GRID, Slot(LevelKind.THREAD, "rows_per_block")), (_ITEMS, _ACROSS, _VECTOR)),
    Rule.COLUMN: ((_STEPS, Slot(LevelKind.CTA, "down")), (_GRID, _ACROSS, _VECTOR)),
    Rule.TRANSPOSE: ((_GRID, _STEPS, Slot(LevelKind.CTA, "down")), (_GRID, _ACROSS)),
    Rule.ELEMENTWISE: ((_GRID, _ITEMS, Slot(LevelKind.CTA, "threads", always=True), _VECTOR),),
    Rule.SCAN: ((_GRID, Slot(LevelKind.CTA, "threads", always=True)), (_STEPS,)),
    Rule.ATTENTION: ((_GRID, Slot(LevelKind.CTA, "rows_per_block", always=True)), (_STEPS, _ACROSS, _ITEMS)),
}
_CPU: Mapping[Rule, Layout] = {
    Rule.ROW: ((_GRID,), (_STEPS,)),
    Rule.MIXED: ((_GRID, Slot(LevelKind.THREAD, "rows_per_block")), (_STEPS,)),
    Rule.COLUMN: ((_STEPS,), (_GRID, _TILE)),
    Rule.TRANSPOSE: ((_GRID, _TILE), (_GRID, _TILE)),
    Rule.ELEMENTWISE: ((_GRID, _TILE),),
    Rule.SCAN: ((_GRID,), (_STEPS,)),
}
_CPU_ROWS: Layout = ((_GRID,), (_STEPS,))
"""Of an elementwise domain that has rows: each is a task."""


def on_gpu(schedule: KernelSchedule) -> bool:
    """Whether a schedule has blocks of threads; those of a CPU are tasks of one."""
    return schedule.mapping.threads > 1


def layout_of(schedule: KernelSchedule) -> Layout:
    """The slots of a schedule that is no joined one."""
    if on_gpu(schedule):
        layout = _GPU[schedule.rule]
    else:
        rows = schedule.rule is Rule.ELEMENTWISE and schedule.domain.rows > 1
        layout = _CPU_ROWS if rows else _CPU[schedule.rule]
    return ((_GRID,), *layout) if len(extents_of(schedule)) > len(layout) else layout


def extents_of(schedule: KernelSchedule) -> tuple[int, ...]:
    """The size of each dimension."""
    domain, node = schedule.domain, schedule.dominant
    if schedule.rule is Rule.COLUMN:
        inner = node.operands[0].type.dims[-1]
        outer = domain.rows // max(inner, 1)
        return (domain.cols, inner) if outer == 1 else (outer, domain.cols, inner)
    if schedule.rule is Rule.TRANSPOSE:
        across, down = (node.type.dims[axis] for axis in tile_axes(node))
        outer = node.type.numel // max(across * down, 1)
        return (down, across) if outer == 1 else (outer, down, across)
    flat = schedule.rule is Rule.ELEMENTWISE and (on_gpu(schedule) or domain.rows == 1)
    return (domain.cols,) if flat else (domain.rows, domain.cols)


def numbers_of(schedule: KernelSchedule) -> Numbers:
    """The extents of a schedule's slots. Grids and steps are as many as it takes; items are a loop or written out."""
    m = schedule.mapping
    return {"grid": None, "steps": None, "items": m.items or None, "beyond": m.beyond or 1, "waves": m.waves,
            "row_blocks": m.row_blocks, "at_once": m.threads // m.row_threads, "down": m.threads // m.row_threads,
            "row_threads": m.row_threads, "threads": m.threads, "vector": m.vector, "rows_per_block": m.rows_per_block,
            "tile": _cpu_tile(schedule)}


def _cpu_tile(schedule: KernelSchedule) -> int:
    """Elements of a dimension that a CPU's task takes."""
    m = schedule.mapping
    return {Rule.TRANSPOSE: TILE, Rule.COLUMN: m.vector}.get(schedule.rule, m.items)


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


def op_labels(pattern: Pattern) -> dict[Node, str]:
    """A name for every op of a pattern and every value that it reads: sum_1, sum_2. Equal for equal structure."""
    counts: Counter[str] = Counter()
    labels: dict[Node, str] = {}
    for node in (*pattern.reads(), *pattern.nodes):
        kind = node.kind.value
        counts[kind] += 1
        labels[node] = f"{kind}_{counts[kind]}"
    return labels


def template_of(schedule: KernelSchedule) -> Template:
    """The template of a schedule; of joined groups one after the other."""
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
    """Values that go through memory of the block: kept rows and tiles, and reductions that several warps or blocks of
    a cluster share."""
    found = [s.node for s in schedule.staged if s.scheme is Scheme.REGIONAL]
    found += [node for node, scheme in value_schemes(schedule).items() if scheme in (Scheme.REGIONAL, Scheme.CLUSTER)]
    return list(dict.fromkeys(found))


def op_dims(schedule: KernelSchedule) -> tuple[int, ...]:
    """The dimensions of the dominant: of a reduction those of what it reduces."""
    node = schedule.dominant
    source = node.operands[0] if node.category is Category.REDUCTION else node
    return tuple(source.type.dims)
