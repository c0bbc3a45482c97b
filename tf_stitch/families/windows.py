"""Weighted sums over windows of images on CPUs (depthwise convolutions): a task has a row of windows. Neighbouring
windows of a row are summed together, in registers, so that a weight and an element that several of them see are loaded
once; the vector loop is over channels. What follows becomes of a sum before it is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.family import GRID, STEPS, KernelFamily, Tilings, fixed
from tf_stitch.families.weighted_sum import Axis, weighted_sum
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, constant, delinearize, linearize, var
from tf_stitch.kernel_ir.sum_chains import CHAIN
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator, MultiIndex, aligned_index
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.lowering.stores import ElementStores
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping

NAME = "window_sums"

TOGETHER = 4
"""Windows of a row that are summed together."""
MOST_TOGETHER = 7
"""Up to this many windows of a row are one group without a loop."""
MOST_TERMS = 160
"""Of a group of windows: up to this many are written one after the other, and no sum leaves its register. More are
written row by row of the windows, and sums wait in an array in between."""
CHANNELS = 512
"""Of a group's array."""


def propose_windows(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """The schedule of a weighted sum over windows.

    Raises:
        ScheduleError: another pattern, or device; outputs of another size; images whose size changes.
    """
    if device.simt:
        raise ScheduleError("threads of a GPU go over windows in a column reduction")
    found = weighted_sum(pattern)
    if found.widened:
        raise ScheduleError("windows of halves", found.total.loc)
    n, p, q, c = found.total.type.dims
    if any(isinstance(dim, SymbolicDim) for dim in (p, q, c, *found.size)):
        raise ScheduleError("images whose size changes", found.total.loc)
    if any(out.type.numel != found.total.type.numel for out in pattern.outputs):
        raise ScheduleError("an output that is none of the sums", found.total.loc)
    domain = Domain(n * p, q * c)
    return [KernelSchedule(NAME, pattern, found.total, domain,
                           ThreadMapping(n * p, 1, 1, 1, min(q, TOGETHER), 0, warp=device.warp))]


def lower_windows(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of a schedule of windows.

    Raises:
        ScheduleError: what follows the sums needs them at other places than their own.
    """
    return _Lowering(schedule).run()


class _Lowering:
    def __init__(self, schedule: KernelSchedule) -> None:
        self._schedule, self._pattern = schedule, schedule.pattern
        self._sum = weighted_sum(schedule.pattern)
        self._rows, self._columns = self._sum.axes()
        self._buffers = BufferTable(schedule.pattern)
        self._out = ScopedEmitter(self._buffers.size)
        self._evaluator = Evaluator(schedule, self._buffers, self._out)
        self._channels = self._sum.total.type.dims[-1]

    def run(self) -> LoweredKernel:
        out, rows = self._out, self._rows
        out.emit(k.Comment("a row of windows", self._pattern.names([self._sum.total])))
        block = var(Var(k.BLOCK, self._schedule.mapping.grid))
        image = block // rows.count
        row = out.below("p", block % rows.count, rows.count)
        self._outputs = [(n, self._buffers.writing(n)) for n in self._pattern.outputs]
        first, last = rows.whole
        groups = list(self._groups())
        short = rows.extent * max(len(_places(self._columns, group)) for group in groups) <= MOST_TERMS and \
            rows.extent * self._columns.extent <= CHAIN
        if not short or last <= first:
            self._each_group(groups, lambda group: self._by_rows(group, image, row))
        elif (first, last) == (0, rows.count):
            self._each_group(groups, lambda group: self._at_once(group, image, row))
        else:
            def inside() -> None:
                own = out.clamped("inner", row - first, last - first) + first
                self._each_group(groups, lambda group: self._at_once(group, image, own))

            out.branch(k.InRange(row, first, last),
                       [inside, lambda: self._each_group(groups, lambda group: self._by_rows(group, image, row))])
        return finish(self._schedule, out, self._buffers)

    def _groups(self) -> Iterator[_Group]:
        """Windows of a row that are summed together: a loop over those whose places are all in the image, and what is
        beside it."""
        count, (first, last) = self._columns.count, self._columns.whole
        if count <= MOST_TOGETHER:
            yield _Group(0, count)
            return
        turns = (last - first) // TOGETHER
        behind = first + turns * TOGETHER
        yield from _apart(0, first)
        if turns:
            yield _Group(first, TOGETHER, turns)
        yield from _apart(behind, count)

    def _each_group(self, groups: Sequence[_Group], emit: Callable[[_Windows], None]) -> None:
        for group in groups:
            turn = Var("turn", group.turns)
            with self._out.loop(turn, k.Loop.SERIAL):
                first = var(turn) * TOGETHER + group.first
                own = tuple(first + t for t in range(group.extent))
                emit(_Windows(own, _places(self._columns, group)))

    def _at_once(self, windows: _Windows, image: Index, row: Index) -> None:
        """Sums of windows all of whose rows lie in the image."""
        out, channel = self._out, Var("c", self._channels)
        with out.loop(channel, k.Loop.SIMD):
            sums: list[k.Expr | None] = [None] * len(windows.own)
            for r in range(self._rows.extent):
                own = self._rows.at(row, constant(r))
                for s, t in windows.places:
                    term = self._term((image, own, windows.own[t]), (constant(r), s), var(channel))
                    sums[t] = self._added(sums[t], term)
            self._store(windows, sums, (image, row), var(channel))

    def _by_rows(self, windows: _Windows, image: Index, row: Index) -> None:
        """Sums that wait in an array while rows of the windows are gone over, those that lie in the image."""
        out, extent = self._out, _divisor(self._channels, CHANNELS)
        part, channel = Var("part", self._channels // extent), Var("c", extent)
        with out.loop(part, k.Loop.SERIAL):
            sums = out.fresh("sums")
            dtype = self._sum.total.type.dtype.compute
            own_channel = var(part) * extent + var(channel)
            out.emit(k.Array(sums, dtype, len(windows.own) * extent, init=0))
            place = Var("r", self._rows.extent)
            with out.loop(place, k.Loop.SERIAL):
                r = var(place)
                seen = self._rows.at(row, r)
                with out.when(k.InRange(seen, 0, self._rows.size)):
                    own = out.clamped("row", seen, self._rows.size)
                    with out.loop(channel, k.Loop.SIMD):
                        self._add_row(windows, sums, extent, (image, own), r, own_channel)
            with out.loop(channel, k.Loop.SIMD):
                self._store(windows, [out.let(k.Element(sums, var(channel) + t * extent, dtype))
                                      for t in range(len(windows.own))], (image, row), own_channel)

    def _add_row(self, windows: _Windows, sums: str, extent: int, at: tuple[Index, Index], r: Index, channel: Index
                 ) -> None:
        parts: list[k.Expr | None] = [None] * len(windows.own)
        for s, t in windows.places:
            parts[t] = self._added(parts[t], self._term((*at, windows.own[t]), (r, s), channel))
        for t, added in enumerate(parts):
            if added is not None:
                self._out.emit(k.SetElement(sums, var(Var("c", extent)) + t * extent, added, OpKind.SUM))

    def _term(self, at: tuple[Index, Index, Index], place: tuple[Index, int], channel: Index) -> k.Expr:
        """What an element of a window adds to its sum.

        Args:
            at: the image, the row in it, and the window in the row.
            place: row and column in the window.
        """
        (image, row, window), (r, s) = at, place
        column = self._columns.at(window, constant(s))
        element = self._evaluator.value(self._sum.image, (image, row, column, channel))
        index: MultiIndex = (image, row, window, r, constant(s), channel)
        weights = self._sum.weights
        weight = self._evaluator.value(weights, aligned_index(index, weights.type.dims))
        return self._out.let(k.Apply(OpKind.MUL, (element, weight), self._sum.total.type.dtype.compute))

    def _added(self, before: k.Expr | None, term: k.Expr) -> k.Expr:
        return term if before is None else self._out.let(k.Apply(OpKind.ADD, (before, term), term.dtype))

    def _store(self, windows: _Windows, sums: Sequence[k.Expr | None], at: tuple[Index, Index], channel: Index) -> None:
        """What becomes of sums; of a window with no place in the image it is of nothing."""
        total, stores = self._sum.total, ElementStores(self._evaluator)
        for own, value in zip(windows.own, sums, strict=True):
            flat = linearize((*at, own, channel), total.type.dims)
            self._evaluator.reduced[total] = value or k.Literal(0, total.type.dtype.compute), flat
            for node, _ in self._outputs:
                self._evaluator.value(node, delinearize(flat, node.type.dims))
            for node, buffer in self._outputs:
                stores.store(node, buffer, flat, None, {})


class _Group(NamedTuple):
    """Neighbouring windows of a row that are summed together; `turns` such groups, one behind the other."""

    first: int
    extent: int
    turns: int = 1


class _Windows(NamedTuple):
    """Of a group, in one turn: which they are, and all (s, t) such that column s of the t-th lies in the image."""

    own: tuple[Index, ...]
    places: tuple[tuple[int, int], ...]


def _apart(first: int, last: int) -> Iterator[_Group]:
    for start in range(first, last, MOST_TOGETHER):
        yield _Group(start, min(MOST_TOGETHER, last - start))


def _places(columns: Axis, group: _Group) -> tuple[tuple[int, int], ...]:
    return tuple((s, t) for s in range(columns.extent) for t in range(group.extent) if columns.has(group.first + t, s))


def _divisor(number: int, most: int) -> int:
    """The greatest that is no more than `most`; the number itself if that is a small part of it."""
    found = max(d for d in range(1, min(number, most) + 1) if number % d == 0)
    return found if 4 * found >= min(number, most) else number


WINDOWS = KernelFamily(NAME, propose_windows, lower_windows, lambda schedule: Tilings(((GRID,), (STEPS,)), fixed))
