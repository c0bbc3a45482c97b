"""A matmul by tensor cores, with what its operands are made of and what becomes of its results, element by element."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.family import GRID, KernelFamily, Request, Slot, Tilings
from tf_stitch.families.matmul_tiles import sharers_of, suits, tiles_of, tiling_of, tilings_of
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.matrices import matrix_layout, terms_of
from tf_stitch.ir.op_attrs import TransposeAttrs
from tf_stitch.ir.strided_view import VIEWS, Strides, view_strides
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Index, Var, constant, delinearize, linearize, var
from tf_stitch.kernel_ir.matmul import BLOCK_MAPS, WORD, MatmulOperand, MatmulShape, MatmulTiling, Place, shared_words
from tf_stitch.kernel_ir.occupancy import MATMUL_REGISTERS, blocks_that_fit
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.lowering.short_reductions import ShortReductions
from tf_stitch.lowering.stores import ElementStores
from tf_stitch.planning.pattern import Pattern, between
from tf_stitch.planning.stitched_matmul import StitchedMatmul, as_stitched_matmul, index_of
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping
from tf_stitch.schedule.vector_width import VECTOR_BYTES, vector_width
from tf_stitch.templates import LevelKind

NAME = "matmul"


TILES_ARRAY, VALUES, RESULTS = "tiles", "values", "results"


def propose_matmul(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """Schedules of every tile, the one first that keeps processors busiest.

    Raises:
        ScheduleError: the pattern is none, or what the kernel cannot do.
    """
    stitched = as_stitched_matmul(between(pattern))
    if stitched is None:
        raise ScheduleError("no single matmul with what is done to elements")
    matmul, dtype = stitched.matmul, stitched.matmul.type.dtype
    _require(device.tensor_cores and device.async_copies, "no tensor cores for it")
    _require(dtype in (DType.F16, DType.BF16) or (dtype is DType.F32 and device.tf32), f"matmuls of {dtype.value}")
    _require(matmul.type.numel > 0 and terms_of(matmul) > 0, "no elements")
    _require(all(n is matmul or n in stitched.after for n in pattern.outputs), "an operand that others read, too")
    _require(stitched.gates == 1 or not any(n is matmul or n in stitched.uncut for n in pattern.outputs),
             "results that are cut, and needed whole, too")
    shape = _shape(stitched, pattern, aligned)
    _require(bool(tilings_of(shape, device)), f"no tiles for {shape.gates} gates of {shape.gate_columns} columns")
    return [_schedule(pattern, matmul, shape, tiling, device) for tiling in tilings_of(shape, device)]


def _schedule(pattern: Pattern, matmul: Node, shape: MatmulShape, tiling: MatmulTiling, device: DeviceSpec
              ) -> KernelSchedule:
    blocks = tiling.blocks(shape)
    mapping = ThreadMapping(blocks, tiling.threads, tiling.column_warps * device.warp, tiling.rows, 1, tiling.columns,
                            tiling.cluster, tiling.cluster > 1, warp=device.warp)
    registers = MATMUL_REGISTERS + tiling.parts * tiling.rows * tiling.columns // tiling.threads
    fit = 1 if tiling.pair else blocks_that_fit(tiling.threads, registers, WORD * shared_words(shape, tiling), device)
    return KernelSchedule(NAME, pattern, matmul, Domain(shape.matrices * shape.m, shape.n), mapping,
                          matmul=(shape, tiling), array_room=device.shared_bytes,
                          resident=min(fit, ceil_div(blocks, device.processors)))


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise ScheduleError(reason)


def _shape(stitched: StitchedMatmul, pattern: Pattern, aligned: bool) -> MatmulShape:
    matmul = stitched.matmul
    *leading, m, n = matmul.type.dims
    a, b = (_operand(operand, transposed, is_a, pattern, aligned) for operand, transposed, is_a
            in zip(matmul.operands, stitched.transposed, (True, False), strict=True))
    return MatmulShape(matmul.type.dtype, math.prod(leading), m, n, terms_of(matmul), a, b,
                       vector_width(pattern, n // stitched.gates, aligned), stitched.gates)


def _operand(node: Node, transposed: bool, is_a: bool, pattern: Pattern, aligned: bool) -> MatmulOperand:
    """Copied as it lies where that can be, else computed, along the axis that is its last, or was before it was
    transposed."""
    size = node.type.dtype.size
    *leading, rows, columns = node.type.dims
    strides = _strides(node, pattern)
    layout = matrix_layout(node.type.dims, strides.axes) if strides is not None and aligned else None
    if strides is not None and layout is not None:
        extent, step = rows if layout.transposed else columns, layout.step if math.prod(leading) > 1 else 0
        if all(n * size % VECTOR_BYTES == 0 for n in (extent, strides.offset, step, layout.stride)):
            return MatmulOperand((layout.transposed is is_a) is transposed, VECTOR_BYTES // size,
                                 Place(strides.offset, step, layout.stride))
    moved = isinstance(node.attrs, TransposeAttrs) and node.attrs.perm[-1] != node.type.rank - 1
    width = min(vector_width(pattern, rows if moved else columns, aligned), VECTOR_BYTES // size)
    return MatmulOperand((moved is is_a) is transposed, width)


def _strides(node: Node, pattern: Pattern) -> Strides | None:
    """How an operand lies in memory; None if it is computed."""
    memory, path = memory_of(node, pattern)
    return None if pattern.holds(memory) else view_strides(path, memory)


def memory_of(node: Node, pattern: Pattern) -> tuple[Node, list[Node]]:
    """What lies in memory of an operand, and the views that lead from there to it."""
    path: list[Node] = []
    while node in pattern.free and node.kind in VIEWS:
        path.append(node)
        node = node.operands[0]
    return node, path[::-1]


def lower_matmul(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of a matmul schedule.

    Raises:
        ScheduleError: results are needed at other places than their own.
    """
    return _Lowering(schedule).run()


class _Lowering:
    def __init__(self, schedule: KernelSchedule) -> None:
        self.schedule, self.pattern = schedule, schedule.pattern
        stitched = as_stitched_matmul(between(schedule.pattern))
        assert stitched is not None
        assert schedule.matmul is not None
        self.stitched, (self.shape, self.tiling) = stitched, schedule.matmul
        self.buffers = BufferTable(schedule.pattern)
        self.out = ScopedEmitter(self.buffers.size)
        self.evaluator = ShortReductions(schedule, self.buffers, self.out)

    def run(self) -> LoweredKernel:
        shape, matmul = self.shape, self.stitched.matmul
        words = shared_words(shape, self.tiling)
        self.out.emit(k.Array(TILES_ARRAY, DType.F32, words, k.Space.SHARED))
        a, b = matmul.operands
        transposed_a, transposed_b = self.stitched.transposed
        a_name, a_place, load_a = self._loading("a", a, shape.a, shape.m, shape.a.along_terms is not transposed_a)
        b_name, b_place, load_b = self._loading("b", b, shape.b, shape.n, shape.b.along_terms is transposed_b)
        place, body = self._finishing()
        self.out.emit(k.Comment("a matmul; each block has a tile of its results", self.pattern.names([matmul])))
        maps = self.buffers.scratch(DType.F32, self.tiling.blocks(shape) * BLOCK_MAPS) if self.tiling.pair else ""
        self.out.emit(k.Matmul(shape, self.tiling, a_name, b_name, TILES_ARRAY, VALUES, a_place, load_a, b_place,
                               load_b, RESULTS, place, body, maps=maps))
        kernel = finish(self.schedule, self.out, self.buffers)
        return replace(kernel, program=replace(kernel.program, resident=self.schedule.resident,
                                                cluster=self.tiling.cluster))

    def _loading(self, name: str, node: Node, operand: MatmulOperand, beside: int, by_rows: bool
                 ) -> tuple[str, tuple[Var, Var, Var], tuple[k.Stmt, ...]]:
        """The buffer of an operand, or the statements that compute a vector of it, and the variables of these.

        Args:
            beside: its extent beside terms.
            by_rows: a line is a row of the operand as the graph has it.
        """
        lines, length = (beside, self.shape.k) if operand.along_terms else (self.shape.k, beside)
        matrix, line = Var(f"{name}_matrix", self.shape.matrices), Var(f"{name}_line", lines)
        chunk = Var(f"{name}_chunk", length // operand.vector)
        place = matrix, line, chunk
        if operand.place is not None:
            memory, _ = memory_of(node, self.pattern)
            return self.buffers.reading(memory), place, ()
        lane = Var(f"{name}_lane", operand.vector)
        with self.out.element(place, VALUES) as body, self._lanes(lane):
            along = var(chunk) * operand.vector + _of(lane)
            last = (var(line), along) if by_rows else (along, var(line))
            value = self.evaluator.value(node, (*delinearize(var(matrix), node.type.dims[:-2]), *last))
            self.out.emit(k.SetElement(VALUES, _of(lane), value))
        return "", place, tuple(body)

    def _finishing(self) -> tuple[tuple[Var, Var, Var], tuple[k.Stmt, ...]]:
        """The statements that take a vector of results to the kernel's outputs, and the variables of these."""
        shape, matmul = self.shape, self.stitched.matmul
        matrix, row = Var("matrix", shape.matrices), Var("row", shape.m)
        chunk = Var("chunk", shape.gate_columns // shape.vector)
        lane = Var("lane", shape.vector)
        outputs = [(n, self.buffers.writing(n)) for n in self.pattern.outputs]
        stores = ElementStores(self.evaluator)
        with self.out.element((matrix, row, chunk), RESULTS) as body:
            arrays = stores.declare(outputs, lane if lane.extent > 1 else None)
            with self._lanes(lane):
                column = var(chunk) * shape.vector + _of(lane)
                own = (*delinearize(var(matrix), matmul.type.dims[:-2]), var(row), column)
                for gate in range(shape.gates):
                    flat = linearize((*own[:-1], column + gate * shape.gate_columns), matmul.type.dims)
                    self.evaluator.staged[matmul][flat] = RESULTS, _of(lane) + gate * shape.vector
                places = self._places(own)
                for node, _ in outputs:  # loads before the first store
                    self.evaluator.value(node, places[node])
                for node, buffer in outputs:
                    flat = linearize(places[node], node.type.dims)
                    stores.store_at(node, buffer, places[node], flat, lane if lane.extent > 1 else None, arrays)
            stores.flush()
        return (matrix, row, chunk), tuple(body)

    def _places(self, own: tuple[Index, ...]) -> dict[Node, tuple[Index, ...]]:
        """Where each node stands that is made of the results."""
        places = {self.stitched.matmul: own}
        for node in self.stitched.after:
            places[node] = index_of(node, places)
        return places

    @contextmanager
    def _lanes(self, lane: Var) -> Iterator[None]:
        with self.out.loop(lane, k.Loop.UNROLL):
            self.evaluator.lane = lane if lane.extent > 1 else None
            yield
            self.evaluator.lane = None


def _of(lane: Var) -> Index:
    return var(lane) if lane.extent > 1 else constant(0)


def _extents(schedule: KernelSchedule) -> tuple[int, ...]:
    return schedule.domain.rows, schedule.domain.cols


def _retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    assert schedule.matmul is not None
    shape, tiling = schedule.matmul
    tile = request.extent("rows_per_block", tiling.rows), request.extent("tile", tiling.columns)
    tiles = [one for one in tiles_of(shape, device) if suits(one[1], shape)]
    if tile not in tiles:
        raise ScheduleError(f"tiles of {tile[0]} x {tile[1]}; there are those of "
                            + ", ".join(f"{rows} x {columns}" for rows, columns in tiles), schedule.dominant.loc)
    sharers = request.extent("row_blocks", 1)
    if sharers not in sharers_of(shape, tile, device):
        raise ScheduleError(f"{sharers} blocks share the terms of a tile of {tile[0]} x {tile[1]}",
                            schedule.dominant.loc)
    return _schedule(schedule.pattern, schedule.dominant, shape, tiling_of(shape, tile, sharers, device), device)


def _candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    assert schedule.matmul is not None
    shape, _ = schedule.matmul
    for rows, columns in (tile for tile in tiles_of(shape, device) if suits(tile[1], shape)):
        for sharers in sharers_of(shape, (rows, columns), device):
            cluster = f"CLUSTER_{sharers}-" if sharers > 1 else ""
            yield f"*[GRID-CTA_{rows},GRID-{cluster}CTA_{columns}];"


_TILINGS = Tilings(((GRID, Slot(LevelKind.CTA, "rows_per_block", always=True)),
                    (GRID, Slot(LevelKind.CLUSTER, "row_blocks"), Slot(LevelKind.CTA, "tile", always=True))),
                   _retile, _candidates, tile=lambda schedule: schedule.mapping.items)

MATMUL = KernelFamily(NAME, propose_matmul, lower_matmul, lambda schedule: _TILINGS, _extents, matmuls=True)
