"""Weighted sums over windows of images on GPUs (depthwise convolutions): a thread has a few neighbouring channels of
some neighbouring windows of a row. It goes over the rows of the windows, loads the elements of the image's row that its
windows see, and the weights, once each, and adds to sums that stay in registers; what follows becomes of a sum before
it is stored. Threads that are next to each other have neighbouring channels, then neighbouring rows of the result,
whose windows share most rows of the image. A block's windows are the same of each row, so that those at the rim of the
image are a branch that no warp takes in part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.family import GRID, ITEMS, VECTOR, KernelFamily, Request, Slot, Tilings, mapped
from tf_stitch.families.weighted_sum import WeightedSum, weighted_sum
from tf_stitch.ir.op_attrs import WindowsAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, constant, delinearize, linearize, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator, MultiIndex, aligned_index
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.lowering.stores import ElementStores
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping
from tf_stitch.schedule.vector_width import vector_width
from tf_stitch.templates import LevelKind

NAME = "windows_in_registers"

THREADS, FEWEST_THREADS = 256, 64
"""Of a block: as many, or half of them while processors have no block each."""
CHANNELS = 2
"""Channels of a thread. A warp then loads a line of 128 bytes of halves at a time, or two of float32."""
MOST_TOGETHER = 14
"""Windows of a thread."""
REGISTERS = 128
"""Of sums, elements and weights of a row of the windows."""
LOAD_COST = 1.5
"""Of an element that is loaded and widened, in multiplications. Assumed."""
BUSY_THREADS = 512
"""Of a processor, from which its lanes are busy."""
MOST_RIMS = 4
"""Groups of windows of a row that reach beyond the image and have a branch each; where there are more, one body serves
all groups and asks of each element whether it is inside."""


def propose_register_windows(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """The schedule of a weighted sum over windows.

    Raises:
        ScheduleError: another pattern, or device; outputs of another size; sizes that change.
    """
    if not device.simt:
        raise ScheduleError("windows are kept in registers on GPUs")
    found = weighted_sum(pattern)
    n, p, q, c = found.total.type.dims
    if any(isinstance(dim, SymbolicDim) for dim in (n, p, q, c, *found.size)) or not found.total.type.numel:
        raise ScheduleError("images whose size changes, or of no elements", found.total.loc)
    if any(out.type.numel != found.total.type.numel for out in pattern.outputs):
        raise ScheduleError("an output that is none of the sums", found.total.loc)
    if found.weights.type.rank > 3:
        raise ScheduleError("weights that differ from window to window", found.total.loc)
    vector = min(vector_width(pattern, c, aligned), CHANNELS)
    together = _together(found, vector, device)
    mapping = ThreadMapping(0, THREADS, 1, 1, vector, together, warp=device.warp)
    schedule = KernelSchedule(NAME, pattern, found.total, Domain(n * p, q * c), mapping)
    threads = THREADS
    while threads > FEWEST_THREADS and _blocks(schedule, threads) < device.processors:
        threads //= 2
    return [replace(schedule, mapping=with_threads(schedule, threads))]


def _together(found: WeightedSum, vector: int, device: DeviceSpec) -> int:
    """Windows of a thread: more share what is loaded, fewer leave work for more threads."""
    n, p, q, c = found.total.type.dims

    def cost(together: int) -> float:
        groups = ceil_div(q, together)
        threads = n * p * groups * (c // vector)
        work = together * found.windows.extents[1] + LOAD_COST * _loaded(found.windows, together)
        return groups * work * max(1.0, BUSY_THREADS * device.processors / threads)

    fitting = [t for t in range(1, min(q, MOST_TOGETHER) + 1)
               if t == 1 or vector * (t + _loaded(found.windows, t)) <= REGISTERS]
    return min(fitting, key=cost)


def _loaded(windows: WindowsAttrs, together: int) -> int:
    """Elements of a row of the image that neighbouring windows see, and the weights of a row."""
    extent, stride, dilation = (of[1] for of in (windows.extents, windows.strides, windows.dilations))
    return len({t * stride + s * dilation for t in range(together) for s in range(extent)}) + extent


def _groups(schedule: KernelSchedule) -> int:
    """Of windows of a row, each of which a thread has."""
    return ceil_div(schedule.dominant.type.dims[2], schedule.mapping.items)


def _threads(schedule: KernelSchedule) -> int:
    """That have the same group of windows of any row."""
    n, p, _, c = schedule.dominant.type.dims
    return n * p * (c // schedule.mapping.vector)


def _blocks(schedule: KernelSchedule, threads: int) -> int:
    return _groups(schedule) * ceil_div(_threads(schedule), threads)


def lower_register_windows(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of a schedule of windows.

    Raises:
        ScheduleError: what follows the sums needs them at other places than their own.
    """
    return _Lowering(schedule).run()


class _Group(NamedTuple):
    """Neighbouring windows of a row.

    Attributes:
        first: of them.
        places: (s, t) such that column s of the t-th window has to be added.
        padded: columns outside of the image are among them, and windows behind the last one.
    """

    first: Index
    extent: int
    places: tuple[tuple[int, int], ...]
    padded: bool = False


class _Place(NamedTuple):
    """What of the result a thread has: an image, a row of windows, and the first channel."""

    image: Index
    row: Index
    channel: Index


class _Lowering:
    def __init__(self, schedule: KernelSchedule) -> None:
        self._schedule, self._pattern, self._mapping = schedule, schedule.pattern, schedule.mapping
        self._sum = weighted_sum(schedule.pattern)
        self._rows, self._columns = self._sum.axes()
        self._buffers = BufferTable(schedule.pattern)
        self._out = ScopedEmitter(self._buffers.size)
        self._evaluator = Evaluator(schedule, self._buffers, self._out)
        self._dtype = self._sum.total.type.dtype.compute
        self._lane = Var("lane", self._mapping.vector)
        self._vector_lane = self._lane if self._mapping.vector > 1 else None

    def run(self) -> LoweredKernel:
        out, m = self._out, self._mapping
        n, p, _, c = self._sum.total.type.dims
        out.emit(k.Comment("windows of a row", self._pattern.names([self._sum.total])))
        groups, threads, across = _groups(self._schedule), _threads(self._schedule), c // m.vector
        block = var(Var(k.BLOCK, m.grid))
        group = out.below("group", block % groups, groups)
        flat = block // groups * m.threads + var(Var(k.THREAD, m.threads))
        inside = None if threads % m.threads == 0 else k.InRange(flat, 0, threads)
        self._outputs = [(node, self._buffers.writing(node)) for node in self._pattern.outputs]
        with out.when(inside):
            at = out.clamped("at", flat, threads)
            row, channel = out.below("row", at // across, n * p), out.below("channel", at % across, across)
            self._one_of(list(self._cases(group)), _Place(row // p, row % p, channel * m.vector))
        kernel = finish(self._schedule, out, self._buffers)
        return replace(kernel, program=replace(kernel.program, resident=self._schedule.resident))

    def _cases(self, group: Index) -> Iterator[tuple[k.InRange, _Group]]:
        """Groups of windows whose columns are all in the image, which are one body; then one by one those at the rim,
        of which it is known what is outside."""
        columns, together, groups = self._columns, self._mapping.items, _groups(self._schedule)
        first, last = columns.whole
        begin = ceil_div(first, together)
        end = max(begin, last // together)
        rims = [g for g in range(groups) if not begin <= g < end]
        everywhere = tuple((s, t) for s in range(columns.extent) for t in range(together))
        if len(rims) > MOST_RIMS:
            yield k.InRange(group, 0, groups), _Group(group * together, together, everywhere, padded=True)
            return
        if end > begin:
            own = constant(begin)
            if end - begin > 1:
                own += self._out.clamped("inner", group - begin, end - begin)
            yield k.InRange(group, begin, end), _Group(own * together, together, everywhere)
        for g in rims:
            extent = min(together, columns.count - g * together)
            places = tuple((s, t) for s, t in everywhere if t < extent and columns.has(g * together + t, s))
            yield k.InRange(group, g, g + 1), _Group(constant(g * together), extent, places)

    def _one_of(self, cases: Sequence[tuple[k.InRange, _Group]], place: _Place) -> None:
        (condition, group), *rest = cases
        if rest:
            self._out.branch(condition, [partial(self._sums, group, place), partial(self._one_of, rest, place)])
        else:
            self._sums(group, place)

    def _sums(self, group: _Group, place: _Place) -> None:
        """The sums of a group of windows, and what becomes of them."""
        out, rows = self._out, self._rows
        sums = out.fresh("sums")
        out.emit(k.Array(sums, self._dtype, group.extent * self._mapping.vector, init=0))
        r = Var("r", rows.extent)
        with out.loop(r, k.Loop.SERIAL, together=self._schedule.together or 1):
            seen = rows.at(place.row, var(r))
            low, high = seen.bounds
            inside = None if low >= 0 and high < rows.size else k.InRange(seen, 0, rows.size)
            with out.when(inside):
                own = seen if inside is None else out.clamped("y", seen, rows.size)
                self._add_row(sums, group, place, own, var(r))
        self._store(sums, group, place)

    def _add_row(self, sums: str, group: _Group, place: _Place, row: Index, r: Index) -> None:
        """Adds what a row of the windows has.

        Args:
            row: of the image.
            r: of the windows.
        """
        weights, vector = self._sum.weights, self._mapping.vector
        seen = {at: self._column(group, at) for at in dict.fromkeys(self._offset(s, t) for s, t in group.places)}
        with self._lanes() as lane:
            channel = place.channel + lane
            for s, t in group.places:
                element = self._element((place.image, row), seen[self._offset(s, t)], channel)
                at: MultiIndex = (r, constant(s), channel)
                weight = self._evaluator.value(weights, aligned_index(at, weights.type.dims))
                product = k.Apply(OpKind.MUL, (element, weight), self._dtype)
                self._out.emit(k.SetElement(sums, lane + t * vector, product, OpKind.SUM, fused=True))

    def _offset(self, s: int, t: int) -> int:
        """From the first column of a group's first window."""
        return t * self._columns.stride + s * self._columns.dilation

    def _column(self, group: _Group, offset: int) -> tuple[Index, k.Expr | None]:
        """A column of the image, and whether it is one where that is not known; if it is none, the nearest."""
        column, size = self._columns.at(group.first, constant(0)) + offset, self._columns.size
        if not group.padded:
            return column, None
        inside = self._out.let(k.InRange(column, 0, size))
        return self._out.clamped(f"x{offset}_", column, size), inside

    def _element(self, at: tuple[Index, Index], column: tuple[Index, k.Expr | None], channel: Index) -> k.Expr:
        """Of the image, or zero beside it."""
        found, (index, inside) = self._sum, column
        value = self._evaluator.value(found.image, (*at, index, channel))
        if found.widened and self._pattern.holds(found.image):
            value = self._out.let(k.Apply(OpKind.CAST, (value,), found.image.type.dtype))  # what a half would hold
        if inside is None:
            return value
        return self._out.let(k.Apply(OpKind.SELECT, (inside, value, k.Literal(0, self._dtype)), self._dtype))

    def _store(self, sums: str, group: _Group, place: _Place) -> None:
        """What becomes of the sums."""
        out, evaluator, dims = self._out, self._evaluator, self._sum.total.type.dims
        t = Var("next", group.extent)
        with out.loop(t, k.Loop.UNROLL):
            window = group.first + var(t)
            with out.when(k.InRange(window, 0, dims[2]) if group.padded else None):
                own = out.clamped("w", window, dims[2]) if group.padded else window
                stores = ElementStores(evaluator)
                arrays = stores.declare(self._outputs, self._vector_lane)
                with self._lanes() as lane:
                    flat = linearize((place.image, place.row, own, place.channel + lane), dims)
                    element = k.Element(sums, var(t) * self._mapping.vector + lane, self._dtype)
                    evaluator.reduced[self._sum.total] = out.let(element), flat
                    for node, _ in self._outputs:
                        evaluator.value(node, delinearize(flat, node.type.dims))
                    for node, buffer in self._outputs:
                        stores.store(node, buffer, flat, evaluator.lane, arrays)
                stores.flush()

    @contextmanager
    def _lanes(self) -> Iterator[Index]:
        """A loop over the channels of a thread; yields which it is."""
        with self._out.loop(self._lane, k.Loop.UNROLL):
            self._evaluator.lane = self._vector_lane
            yield var(self._lane)
            self._evaluator.lane = None


def _extents(schedule: KernelSchedule) -> tuple[int, ...]:
    n, p, q, c = schedule.dominant.type.dims
    return n * p, q, c


def with_threads(schedule: KernelSchedule, threads: int) -> ThreadMapping:
    return replace(schedule.mapping, threads=threads, grid=_blocks(schedule, threads))


def _retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    m = schedule.mapping
    threads, vector = request.extent("threads", m.threads), request.extent("vector", m.vector)
    together = request.extent("items", m.items) or m.items
    if schedule.dominant.type.dims[-1] % vector or together > schedule.dominant.type.dims[2]:
        raise ScheduleError(f"{vector} channels of {together} windows of a row", schedule.dominant.loc)
    tiled = mapped(schedule, threads=threads, vector=vector, items=together)
    return replace(tiled, mapping=with_threads(tiled, threads))


def _candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    for vector in (1, 2, 4, 8):
        for together in (1, 2, 4, 7, 8, 14, 16):
            for threads in (64, 128, 256):
                yield f"*[GRID,GRID-THREAD_{together},GRID-CTA_{threads}-THREAD_{vector}];"


_TILINGS = Tilings(((GRID, ITEMS), (GRID, Slot(LevelKind.CTA, "threads", always=True), VECTOR)), _retile, _candidates)

REGISTER_WINDOWS = KernelFamily(NAME, propose_register_windows, lower_register_windows, lambda schedule: _TILINGS,
                                _extents, with_threads=with_threads)
