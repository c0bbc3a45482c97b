"""Lowers tiled transposes. A block reads a tile along the operand's contiguous axis, keeps it, and computes and writes
its outputs along the result's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tf_stitch.errors import ScheduleError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_attrs import TransposeAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import ceil_div, divides, surely_less
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, constant, delinearize, linearize, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator, MultiIndex
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.rules.transpose import TILE, tile_axes

PITCH = TILE + 1
"""Elements between rows of the tile in block memory: no two threads of a warp meet in one bank."""


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
            self.evaluator.staged[self.node, flat] = (tile, slow * PITCH + fast)
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
        """The full index; at the rim clamped, so that its bounds are those of the axis."""
        rest = iter(outer)
        full: list[Index] = []
        for axis, dim in enumerate(self.dims):
            index = tile[axis] if axis in tile else next(rest)
            if axis in tile and not surely_less(index.bounds[1], dim):
                index = self.out.clamped(f"at{axis}_", index, dim)
            full.append(index)
        return tuple(full)
