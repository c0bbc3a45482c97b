"""A matmul in float32 on a CPU, with what is computed of its operands' elements before it and of its results' after it.
A task has a tile of the results, or a column of tiles. Sums of a tile stay in registers, and become outputs while the
tile is in the first cache. An operand that does not lie in memory as tiles read it (kernel_ir/tile_product.py) is
computed, or put in order, in an array of the task."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.family import GRID, STEPS, KernelFamily, Tilings, fixed
from tf_stitch.families.matmul import memory_of
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import MatrixLayout, matrix_layout, terms_of
from tf_stitch.ir.strided_view import view_strides
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, constant, delinearize, linearize, var
from tf_stitch.kernel_ir.tile_product import LEAST_COLUMNS
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.lowering.stores import ElementStores
from tf_stitch.planning.pattern import Pattern, between
from tf_stitch.planning.stitched_matmul import StitchedMatmul, as_stitched_matmul, index_of
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping

NAME = "matmul_in_tasks"

TILE_ROWS = 16
"""Of a tile: two or more register tiles read a vector of the second operand one after the other."""
MOST_COLUMNS = 512
"""Of a tile, whose results the first cache keeps until they become outputs."""
TASKS = 4
"""For each core, where there are columns enough: who is late leaves some to others."""
ARRAY_BYTES = 1 << 18
"""Of columns of the second operand that a task puts in order: a part of the second cache."""

TERMS = 64
"""Of the columns that a task puts in order, at a time: the first cache keeps where they go."""
RESULTS, ARRAYS = "results", ("first_operand", "second_operand")
_Read: TypeAlias = tuple[str, str, Index, int, int]
"""Buffer or array, where it begins, steps beside terms and along them."""


class _Place(NamedTuple):
    """Where an operand lies in memory.

    Attributes:
        layout: of its matrices.
        beside: elements between neighbours along rows of the first operand, along columns of the second.
        term: along terms.
    """

    memory: Node
    layout: MatrixLayout
    beside: int
    term: int


class _Shape(NamedTuple):
    """`matrices` matmuls [m, terms] x [terms, n].

    Attributes:
        a, b: where the operands lie; None for what is computed.
    """

    matrices: int
    m: int
    n: int
    terms: int
    a: _Place | None
    b: _Place | None

    @property
    def in_order(self) -> bool:
        """Whether tiles read the second operand as it lies: its columns have no gaps."""
        return self.b is not None and self.b.beside == 1


def propose_matmul_in_tasks(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """The schedule of a matmul and what is around it.

    Raises:
        ScheduleError: another pattern, device or element type; sizes that tiles do not fit.
    """
    stitched = as_stitched_matmul(between(pattern))
    if stitched is None:
        raise ScheduleError("no single matmul with what is done to elements")
    matmul = stitched.matmul
    _require(not device.simt, "tiles of one thread are a CPU's")
    _require(all(x.type.dtype is DType.F32 for x in (matmul, *matmul.operands)), "another type than float32")
    _require(all(n is matmul or n in stitched.after for n in pattern.outputs), "an operand that others read, too")
    _require(stitched.gates == 1 or not any(n is matmul or n in stitched.uncut for n in pattern.outputs),
             "results that are cut, and needed whole, too")
    shape = _shape(stitched, pattern)
    _require(shape.matrices * shape.m * shape.terms > 0 and shape.n >= LEAST_COLUMNS,
             f"fewer than {LEAST_COLUMNS} columns")
    columns = _columns(shape, stitched.gates, device)
    _require(shape.in_order or shape.terms * columns * DType.F32.size <= ARRAY_BYTES,
             f"{columns} columns of {shape.terms} terms to be put in order")
    rows = min(TILE_ROWS, shape.m) if shape.in_order else shape.m
    grid = shape.matrices * ceil_div(shape.m, rows) * ceil_div(shape.n, columns)
    mapping = ThreadMapping(grid, 1, 1, rows, 1, columns, warp=device.warp)
    return [KernelSchedule(NAME, pattern, matmul, Domain(shape.matrices * shape.m, shape.n), mapping)]


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise ScheduleError(reason)


def _columns(shape: _Shape, gates: int, device: DeviceSpec) -> int:
    """Columns of a tile: all of them where they are cut into gates; else such that there are tiles for all cores."""
    if gates > 1:
        return shape.n
    unit = 2 * LEAST_COLUMNS
    most = MOST_COLUMNS if shape.in_order else min(MOST_COLUMNS, ARRAY_BYTES // DType.F32.size // shape.terms)
    blocks = shape.matrices * (ceil_div(shape.m, TILE_ROWS) if shape.in_order else 1)
    wanted = ceil_div(TASKS * device.processors, blocks)
    columns = max(min(ceil_div(shape.n, wanted), most) // unit * unit, unit)
    while columns < shape.n and 0 < shape.n % columns < LEAST_COLUMNS:
        columns += LEAST_COLUMNS
    return min(columns, shape.n)


def _shape(stitched: StitchedMatmul, pattern: Pattern) -> _Shape:
    matmul = stitched.matmul
    *leading, m, n = matmul.type.dims
    (a, b), (swap_a, swap_b) = matmul.operands, stitched.transposed
    places = _place(a, swap_a, pattern), _place(b, not swap_b, pattern)
    return _Shape(math.prod(leading), m, n, terms_of(matmul), *places)


def _place(node: Node, by_terms: bool, pattern: Pattern) -> _Place | None:
    """Where an operand lies; None if it is computed, or its elements have gaps along both axes.

    Args:
        by_terms: its rows are terms.
    """
    memory, path = memory_of(node, pattern)
    strides = None if pattern.holds(memory) else view_strides(path, memory)
    layout = None if strides is None else matrix_layout(node.type.dims, strides.axes, 2, strides.offset)
    if layout is None:
        return None
    row, column = (1, layout.stride) if layout.transposed else (layout.stride, 1)
    beside, term = (column, row) if by_terms else (row, column)
    return _Place(memory, layout, beside, term)


def lower_matmul_in_tasks(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of such a schedule.

    Raises:
        ScheduleError: results are needed at other places than their own.
    """
    return _Lowering(schedule).run()


class _Axis(NamedTuple):
    """A loop over rows or columns of a tile, or over terms.

    Attributes:
        loop: counts from the first one of the tile.
        first: of the matrix.
        limit: how many there are from `first` on, where that may be fewer than the loop has; else None.
        size: of the matrix.
    """

    loop: Var
    first: Index
    limit: Index | None
    size: int

    def own(self, out: ScopedEmitter) -> Index:
        """Which one of the matrix it is, inside the loop."""
        own = self.first + var(self.loop)
        return own if self.limit is None else out.below(f"own_{self.loop.name}", own, self.size)


def _axis(name: str, first: Index, extent: int, size: int) -> _Axis:
    return _Axis(Var(name, extent), first, constant(size) - first if size % extent else None, size)


class _Lowering:
    def __init__(self, schedule: KernelSchedule) -> None:
        self._schedule, self._pattern = schedule, schedule.pattern
        stitched = as_stitched_matmul(between(schedule.pattern))
        assert stitched is not None
        self._stitched, self._matmul = stitched, stitched.matmul
        self._shape = _shape(stitched, schedule.pattern)
        self._buffers = BufferTable(schedule.pattern)
        self._out = ScopedEmitter(self._buffers.size)
        self._evaluator = Evaluator(schedule, self._buffers, self._out)
        self._outputs = [(node, self._buffers.writing(node)) for node in schedule.pattern.outputs]

    def run(self) -> LoweredKernel:
        shape, mapping, out = self._shape, self._schedule.mapping, self._out
        out.emit(k.Comment("a matmul; each task has a tile of its results", self._pattern.names([self._matmul])))
        across, down = ceil_div(shape.n, mapping.items), ceil_div(shape.m, mapping.rows_per_block)
        block = var(Var(k.BLOCK, mapping.grid))
        self._matrix = block // (across * down)
        columns = _axis("column", block % across * mapping.items, mapping.items, shape.n)
        if not shape.in_order:
            self._arrange(1, columns, (1, mapping.items))
        rows = min(TILE_ROWS, mapping.rows_per_block)
        tile = Var("tile", ceil_div(mapping.rows_per_block, rows))
        with out.loop(tile, k.Loop.SERIAL):
            first = block // across % down * mapping.rows_per_block + var(tile) * rows
            self._tile(_axis("row", first, rows, shape.m), columns)
        return finish(self._schedule, out, self._buffers)

    def _arrange(self, number: int, beside: _Axis, steps: tuple[int, int]) -> None:
        """Puts what a tile needs of an operand into an array, computed where it has to be.

        Args:
            number: 0 or 1, of the operand.
            steps: in the array, along rows or columns, and along terms.
        """
        node, out = self._matmul.operands[number], self._out
        terms_last = self._stitched.transposed[number] is (number == 1)
        place = (self._shape.a, self._shape.b)[number]
        along = terms_last if place is None else place.term == 1
        out.emit(k.Array(ARRAYS[number], DType.F32, self._shape.terms * beside.loop.extent))
        together = min(TERMS, self._shape.terms) if along and steps[1] > 1 else self._shape.terms
        part = Var("part", ceil_div(self._shape.terms, together))
        with out.loop(part, k.Loop.SERIAL):
            terms = _axis("term", var(part) * together, together, self._shape.terms)
            outer, inner = (beside, terms) if along else (terms, beside)
            with out.loop(outer.loop, k.Loop.SERIAL, outer.limit), out.loop(inner.loop, k.Loop.SIMD, inner.limit):
                own, term = beside.own(out), terms.own(out)
                last = (own, term) if terms_last else (term, own)
                value = self._evaluator.value(node, (*delinearize(self._matrix, node.type.dims[:-2]), *last))
                at = var(beside.loop) * steps[0] + (terms.first + var(terms.loop)) * steps[1]
                out.emit(k.SetElement(ARRAYS[number], at, value))

    def _tile(self, rows: _Axis, columns: _Axis) -> None:
        """The sums of a tile, and what becomes of them."""
        shape, out = self._shape, self._out
        if shape.a is None:
            self._arrange(0, rows, (shape.terms, 1))
            a: _Read = "", ARRAYS[0], constant(0), shape.terms, 1
        else:
            a = self._buffers.reading(shape.a.memory), "", self._at(shape.a, rows), shape.a.beside, shape.a.term
        if shape.b is None or not shape.in_order:
            b: _Read = "", ARRAYS[1], constant(0), 1, columns.loop.extent
        else:
            b = self._buffers.reading(shape.b.memory), "", self._at(shape.b, columns), 1, shape.b.term
        width = columns.loop.extent
        out.emit(k.Array(RESULTS, DType.F32, rows.loop.extent * width))
        out.emit(k.TileProduct(RESULTS, width, rows.loop.extent, width, shape.terms, *a, *b[:3], b[4], rows.limit,
                               columns.limit))
        self._finish(rows, columns)

    def _at(self, place: _Place, axis: _Axis) -> Index:
        """Of a tile's first element in memory."""
        layout, matrix = place.layout, self._matrix
        first = matrix // layout.group * layout.step + matrix % layout.group * layout.group_step + layout.offset
        return first + axis.first * place.beside

    def _finish(self, rows: _Axis, columns: _Axis) -> None:
        matmul, out, evaluator, gates = self._matmul, self._out, self._evaluator, self._stitched.gates
        width, stores = columns.loop.extent, ElementStores(self._evaluator)
        of_gate = columns._replace(loop=Var(columns.loop.name, width // gates))
        with out.loop(rows.loop, k.Loop.SERIAL, rows.limit):
            row = rows.own(out)
            with out.loop(of_gate.loop, k.Loop.SIMD, of_gate.limit):
                column = of_gate.own(out)
                own = (*delinearize(self._matrix, matmul.type.dims[:-2]), row, column)
                for gate in range(gates):
                    first = gate * (width // gates)
                    flat = linearize((*own[:-1], column + first), matmul.type.dims)
                    evaluator.staged[matmul][flat] = RESULTS, var(rows.loop) * width + var(of_gate.loop) + first
                places = {matmul: own}
                for node in self._stitched.after:
                    places[node] = index_of(node, places)
                for node, _ in self._outputs:  # loads before the first store
                    evaluator.value(node, places[node])
                for node, buffer in self._outputs:
                    stores.store_at(node, buffer, places[node], linearize(places[node], node.type.dims), None, {})


MATMUL_IN_TASKS = KernelFamily(NAME, propose_matmul_in_tasks, lower_matmul_in_tasks,
                               lambda schedule: Tilings(((GRID,), (STEPS,)), fixed), matmuls=True, one_order=True,
                               in_place=True)
