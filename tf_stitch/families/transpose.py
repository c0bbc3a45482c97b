"""Element-wise patterns around a transpose that moves the contiguous axis, so that reads and writes run along memory. A
block reads a tile along the operand's contiguous axis, keeps it, and computes and writes its outputs along the
result's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families import family as f
from tf_stitch.families.family import KernelFamily, Request, Slot, Tilings, by_threads, keep, mapped
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import TransposeAttrs
from tf_stitch.ir.op_kinds import COLLECTED, OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim, ceil_div, divides, surely_less
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, constant, delinearize, linearize, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator, MultiIndex
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, Scheme, Staged, ThreadMapping
from tf_stitch.templates import LevelKind

NAME = "transpose"

TILE = 32
PITCH = TILE + 1
"""Elements between rows of the tile in block memory: no two threads of a warp meet in one bank."""
GPU_THREADS = 256
SHORTEST_AXIS = 8
"""Elements of either axis below which a tile is mostly empty."""


def propose_transpose(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """The tiled schedule.

    Raises:
        ScheduleError: no such transpose, a reduction or scan, or outputs of another size than the transposed value.
    """
    if any(n.category in COLLECTED for n in pattern.nodes):
        raise ScheduleError("a reduction or scan")
    moving = [n for n in pattern.nodes if isinstance(n.attrs, TransposeAttrs) and n.attrs.perm[-1] != n.type.rank - 1]
    if not moving:
        raise ScheduleError("no transpose of the contiguous axis")
    dominant = moving[0]
    if any(n.type.numel != dominant.type.numel for n in pattern.outputs):
        raise ScheduleError("outputs of another size than the transposed value")
    across, down = tile_axes(dominant)
    dims = dominant.type.dims
    if any(not isinstance(dims[a], SymbolicDim) and dims[a] < SHORTEST_AXIS for a in (across, down)):
        raise ScheduleError("an axis too short for tiles")
    tiles = ceil_div(dims[across], TILE) * ceil_div(dims[down], TILE)
    outer = dominant.type.numel // (dims[across] * dims[down])
    threads = GPU_THREADS if device.simt else 1
    mapping = ThreadMapping(outer * tiles, threads, min(threads, TILE), TILE, 1, 0, warp=device.warp)
    return [KernelSchedule(NAME, pattern, dominant, Domain(outer * dims[down], dims[across]), mapping,
                           (Staged(dominant, Scheme.REGIONAL),))]


def tile_axes(node: Node) -> tuple[int, int]:
    """Axes of a transpose's result: the one that is contiguous in the result, and in its operand."""
    assert isinstance(node.attrs, TransposeAttrs)
    last = node.type.rank - 1
    return last, node.attrs.perm.index(last)


def lower_transpose(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of a transpose schedule.

    Raises:
        ScheduleError: the outputs do not read the transposed value at their own element.
    """
    return _TransposeLowering(schedule).run()


class _TransposeLowering:
    def __init__(self, schedule: KernelSchedule) -> None:
        self.schedule, self.mapping, self.node = schedule, schedule.mapping, schedule.dominant
        self.buffers = BufferTable(schedule.pattern)
        self.out = ScopedEmitter(self.buffers.size)
        self.evaluator = Evaluator(schedule, self.buffers, self.out)
        self.across, self.down = tile_axes(self.node)
        self.dims = self.node.type.dims

    def run(self) -> LoweredKernel:
        tiles = [ceil_div(self.dims[a], TILE) for a in (self.down, self.across)]
        block = var(Var(k.BLOCK, self.mapping.grid))
        rest = [d for a, d in enumerate(self.dims) if a not in (self.across, self.down)]
        outer = delinearize(block // (tiles[0] * tiles[1]), rest)
        down, across = block // tiles[1] % tiles[0] * TILE, block % tiles[1] * TILE
        dtype = self.node.type.dtype.compute
        space = k.Space.SHARED if self.mapping.threads > 1 else k.Space.LOCAL
        tile = self.out.fresh("tile")
        self.out.emit(k.Comment("a tile is read as its operand lies", self.schedule.pattern.names([self.node])))
        self.out.emit(k.Array(tile, dtype, TILE * PITCH, space, note=self.schedule.pattern.name(self.node)))
        with self._walk(outer, (across, self.across), (down, self.down)) as (index, slow, fast):
            source = [constant(0)] * len(self.dims)
            assert isinstance(self.node.attrs, TransposeAttrs)
            for axis, p in enumerate(self.node.attrs.perm):
                source[p] = index[axis]
            value = self.evaluator.value(self.node.operands[0], tuple(source))
            self.out.emit(k.SetElement(tile, fast * PITCH + slow, value))
        if self.mapping.threads > 1:
            self.out.emit(k.Barrier())
        outputs = [(n, self.buffers.writing(n)) for n in self.schedule.pattern.outputs]
        self.out.emit(k.Comment("and written as the results lie", self.schedule.pattern.names(n for n, _ in outputs)))
        with self._walk(outer, (down, self.down), (across, self.across)) as (index, slow, fast):
            flat = linearize(index, self.dims)
            self.evaluator.staged[self.node][flat] = (tile, slow * PITCH + fast)
            for node, buffer in outputs:
                value = self.evaluator.value(node, delinearize(flat, node.type.dims))
                self.out.emit(k.Store(buffer, flat, value))
            if self.out.lookup((self.node, delinearize(flat, self.dims))) is None:
                raise ScheduleError("the transposed value is not needed at the outputs' own elements", self.node.loc)
        return finish(self.schedule, self.out, self.buffers)

    @contextmanager
    def _walk(self, outer: MultiIndex, slow: tuple[Index, int], fast: tuple[Index, int]
              ) -> Iterator[tuple[MultiIndex, Index, Index]]:
        """Every element of the tile, neighbouring threads (CPU: iterations) along the `fast` axis.

        Args:
            outer: index of the other axes.
            slow, fast: first element of the tile and axis.

        Yields:
            the element's index in the transposed value, and its place in the tile along slow and fast.
        """
        groups = self.mapping.threads // self.mapping.row_threads
        thread = var(Var(k.THREAD, self.mapping.threads))
        step = Var("step", TILE // groups)
        gpu = self.mapping.threads > 1
        lane = Var("lane", 1 if gpu else TILE)
        here = (var(step) * groups + thread // TILE) if gpu else var(step)
        there = thread % TILE if gpu else var(lane)
        limit = None if gpu or divides(TILE, self.dims[fast[1]]) else fast[0] * -1 + self.dims[fast[1]]
        with self.out.loop(step, k.Loop.UNROLL if gpu else k.Loop.SERIAL), \
                self.out.when(self._inside(slow, here, fast, there if gpu else None)), \
                self.out.loop(lane, k.Loop.SIMD, limit):
            index = self._index(outer, {slow[1]: slow[0] + here, fast[1]: fast[0] + there})
            yield index, here, there

    def _inside(self, slow: tuple[Index, int], here: Index, fast: tuple[Index, int],
                there: Index | None) -> k.Expr | None:
        """The condition that an element of a tile at the rim exists; None if all do."""
        parts: list[k.Expr] = []
        for (first, axis), offset in ((slow, here), (fast, there)):
            if offset is not None and not divides(TILE, self.dims[axis]):
                parts.append(k.InRange(first + offset, 0, self.dims[axis]))
        if len(parts) == 2:
            return k.Apply(OpKind.AND, (parts[0], parts[1]), DType.BOOL)
        return parts[0] if parts else None

    def _index(self, outer: MultiIndex, tile: dict[int, Index]) -> MultiIndex:
        """The full index; at the rim its bounds are those of the axis. A CPU's guards and limits let no element run
        that is outside; a GPU clamps the index, since loads may move ahead of guards."""
        within = self.out.clamped if self.mapping.threads > 1 else self.out.below
        rest = iter(outer)
        full: list[Index] = []
        for axis, dim in enumerate(self.dims):
            index = tile[axis] if axis in tile else next(rest)
            if axis in tile and not surely_less(index.bounds[1], dim):
                index = within(f"at{axis}_", index, dim)
            full.append(index)
        return tuple(full)


def _extents(schedule: KernelSchedule) -> tuple[int, ...]:
    """The axes that tiles cover; what is left stands before them."""
    node = schedule.dominant
    across, down = (node.type.dims[axis] for axis in tile_axes(node))
    outer = node.type.numel // max(across * down, 1)
    return (down, across) if outer == 1 else (outer, down, across)


def _retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    m = schedule.mapping
    keep(schedule, request, "row_threads", m.row_threads, "elements of a tile's row")
    down = request.extent("down", m.threads // m.row_threads)
    if TILE % down:
        raise ScheduleError(f"{down} rows of a tile of {TILE} at a time", schedule.dominant.loc)
    return mapped(schedule, threads=down * m.row_threads)


def _candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    outer = "GRID," if schedule.dominant.type.rank > 2 else ""
    for down in (4, 8, 16, 32):
        yield f"*[{outer}GRID-THREAD-CTA_{down},GRID-CTA_{TILE}]S;"


def _same_tile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    keep(schedule, request, "tile", TILE, "elements of a tile's row")
    return schedule


_BLOCKS = Tilings(((f.GRID, f.STEPS, Slot(LevelKind.CTA, "down")), (f.GRID, f.ACROSS)), _retile, _candidates)
_TASKS = Tilings(((f.GRID, f.TILE), (f.GRID, f.TILE)), _same_tile, tile=lambda schedule: TILE)

TRANSPOSE = KernelFamily(NAME, propose_transpose, lower_transpose, by_threads(_BLOCKS, _TASKS), _extents,
                         in_place=True)  # a block reads its tile before it writes it
