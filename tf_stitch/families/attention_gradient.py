"""Gradients of an attention, scores and their gradients in registers: see emit/attention_gradient.cu."""

from __future__ import annotations

import math
from dataclasses import replace

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.attention import (
    LEAST_REGISTERS,
    WIDEST,
    as_rows,
    even_tiles,
    operand_rows,
    require,
    require_matmuls,
    require_rows,
    store_rows,
)
from tf_stitch.families.family import ACROSS, GRID, ITEMS, STEPS, KernelFamily, Request, Slot, Tilings
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.attention import WORD, Rows
from tf_stitch.kernel_ir.attention_gradient import GradientShape, GradientTiling, gradient_words
from tf_stitch.kernel_ir.index import Var, constant, delinearize, linearize, var
from tf_stitch.kernel_ir.occupancy import blocks_that_fit
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator, MultiIndex
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.planning.attention import memory_of
from tf_stitch.planning.attention_gradient import AttentionGradient, Factor, Sum
from tf_stitch.planning.pattern import Pattern
from tf_stitch.planning.pattern_kind import attention_of
from tf_stitch.schedule.kernel_schedule import Domain, KernelSchedule, ThreadMapping
from tf_stitch.templates import LevelKind

NAME = "attention_gradient"

WARPS, TILE, LARGE_TILE = 4, 32, 64
"""Of a block; and columns that it takes at a time: more (0 to 15 % less time on an H200), if registers are left, unless
they reach far beyond the last (197 columns: 10 to 29 % more)."""
MOST_HELD, OWN_REGISTERS = 176, 64
"""Registers for results, scores and rows up to which warps hold their rows; and for all else."""
TILES, SCORE, GRADIENT, ROW_SUM, MOST = "tiles", "score", "gradient", "row_sum", "most"


def propose_attention_gradient(pattern: Pattern, device: DeviceSpec, aligned: bool) -> list[KernelSchedule]:
    """The schedule.

    Raises:
        ScheduleError: the pattern is none, or what the kernel cannot do.
    """
    gradient = attention_of(pattern)
    if not isinstance(gradient, AttentionGradient):
        raise ScheduleError("a matmul is a library call of its own")
    require(aligned, "no tensor cores for it")
    require_rows(gradient.operands, pattern)
    shape = _shape(gradient, pattern)
    require_matmuls(shape.dtype, (shape.depth, shape.width), device)
    matmuls = [n for n in gradient.nodes if n.kind is gradient.scores.matmul.kind]
    require(all(n.type.dtype is shape.dtype for n in matmuls), "matmuls of several types")
    require(shape.outer * shape.heads * shape.rows * shape.columns > 0, "no elements")
    results = [rows for rows in (shape.result, shape.result_2) if rows is not None]
    require(all(n * shape.dtype.size % 16 == 0 for r in results for n in (r.outer, r.head, r.row)), "unaligned results")
    large = shape.depth + shape.width <= WIDEST and even_tiles(shape.columns, LARGE_TILE, TILE)
    tiling = tiling_of(shape, WARPS, LARGE_TILE if large else TILE, device.warp)
    registers = max(LEAST_REGISTERS,
                    OWN_REGISTERS + _made_registers(shape, tiling.tile) + (_own_registers(shape) if tiling.held else 0))
    blocks = shape.outer * shape.heads * tiling.parts(shape.rows)
    resident = min(blocks_that_fit(tiling.threads, registers, WORD * gradient_words(shape, tiling), device),
                   ceil_div(blocks, device.processors))
    require(resident > 0, "rows too long for the block's memory")
    mapping = ThreadMapping(blocks, tiling.threads, device.warp, tiling.rows, 1, tiling.tile, warp=device.warp)
    return [KernelSchedule(NAME, pattern, gradient.score_sum.matmul,
                           Domain(shape.outer * shape.heads * shape.rows, shape.columns), mapping,
                           array_room=device.shared_bytes, resident=resident)]


def lower_attention_gradient(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of such a schedule.

    Raises:
        ScheduleError: an element needs what is no element of the same place.
    """
    gradient = attention_of(schedule.pattern)
    assert isinstance(gradient, AttentionGradient)
    return _Lowering(schedule, gradient).kernel()


class _Lowering:
    def __init__(self, schedule: KernelSchedule, gradient: AttentionGradient) -> None:
        self._schedule, self._gradient, self._pattern = schedule, gradient, schedule.pattern
        self._buffers = BufferTable(schedule.pattern)
        self._out = ScopedEmitter(self._buffers.size)
        self._evaluator = Evaluator(schedule, self._buffers, self._out)
        self._shape = _shape(gradient, schedule.pattern)
        queries, keys = self._shape.rows, self._shape.columns
        if gradient.by_keys:
            queries, keys = keys, queries
        self._position = (Var("outer", self._shape.outer), Var("head", self._shape.heads), Var("query", queries),
                          Var("key", keys))
        outer, head, query, key = map(var, self._position)
        leading = gradient.scores.matmul.type.dims[:-2]
        self._place: MultiIndex = (*delinearize(outer * self._shape.heads + head, leading), query, key)

    def kernel(self) -> LoweredKernel:
        gradient, shape, out = self._gradient, self._shape, self._out
        m = self._schedule.mapping
        tiling = tiling_of(shape, m.rows_per_block // 16, m.items, m.warp)
        reads = [self._buffers.reading(memory_of(o, self._pattern.free)[0]) for o in gradient.operands]
        out.emit(k.Array(TILES, DType.F32, gradient_words(shape, tiling), k.Space.SHARED))
        self._is_at(gradient.scores, SCORE)
        self._is_at(gradient.weights, GRADIENT)
        summand, keep = self._sums()
        body = self._body(dict(zip((GRADIENT, SCORE), (end.weights for end in gradient.sums), strict=False)))
        find_most = self._find_most()
        results = [self._buffers.writing(node) for node in gradient.results]
        what = "keys" if gradient.by_keys else "queries"
        out.emit(k.Comment(f"gradients of an attention; each block has some {what}",
                           self._pattern.names(gradient.results)))
        own, own_2, other, other_2 = reads
        if gradient.by_keys:
            out.emit(k.AttentionKeyGradient(shape, tiling, own, own_2, other, other_2, results[0], TILES,
                                            *self._position, SCORE, GRADIENT, body, MOST, find_most, results[1]))
        else:
            out.emit(k.AttentionQueryGradient(shape, tiling, own, own_2, other, other_2, results[0], TILES,
                                              *self._position, SCORE, GRADIENT, body, MOST, find_most, ROW_SUM,
                                              summand, keep))
        kernel = finish(self._schedule, out, self._buffers)
        return replace(kernel, program=replace(kernel.program, resident=self._schedule.resident))

    def _is_at(self, factor: Factor, scalar: str) -> None:
        *leading, query, key = self._place
        own = (*leading, key, query) if factor.keys_first else (*leading, query, key)
        self._evaluator.reduced[factor.matmul] = k.Local(scalar, DType.F32), linearize(own, factor.matmul.type.dims)

    def _sums(self) -> tuple[tuple[k.Stmt, ...], tuple[k.Stmt, ...]]:
        """What is summed over keys, and what becomes of a query's sum; it is known from then on."""
        node = self._gradient.row_sum
        if node is None:
            return (), ()
        summand = self._body({GRADIENT: node.operands[0]})
        row = self._place[:-1]
        self._evaluator.reduced[node] = k.Local(ROW_SUM, DType.F32), linearize(row, node.type.dims)
        with self._out.element(self._position[:3], ROW_SUM) as keep:
            store_rows(self._evaluator, row, [n for n in self._pattern.outputs if n not in self._gradient.results])
        return summand, tuple(keep)

    def _find_most(self) -> tuple[k.Stmt, ...]:
        """What tells of a query how far its scores are above masked ones."""
        unseen = self._gradient.unseen
        if unseen is None:
            return ()
        with self._out.element(self._position[:3], MOST) as body:
            place = (*self._place[:-1], constant(0))
            value = self._evaluator.value(unseen.most, place)
            self._out.emit(k.Assign(MOST, value))
        return tuple(body)

    def _body(self, made: dict[str, Node]) -> tuple[k.Stmt, ...]:
        """Statements that make scalars nodes' values at the position, of the scores that they are before."""
        with self._out.element(self._position, SCORE, GRADIENT, ROW_SUM) as body:
            values = {scalar: self._out.let(self._evaluator.value(node, self._place)) for scalar, node in made.items()}
            for scalar, value in values.items():
                self._out.emit(k.Assign(scalar, value))
        return tuple(body)


def tiling_of(shape: GradientShape, warps: int, tile: int, warp: int) -> GradientTiling:
    """Warps hold their rows where registers are left, which is not so where they have keys."""
    held = not shape.by_keys and _own_registers(shape) + _made_registers(shape, tile) <= MOST_HELD
    return GradientTiling(warps, tile, held, warp)


def _own_registers(shape: GradientShape) -> int:
    """Of a thread that holds its share of its warp's rows."""
    return (shape.depth + shape.width) * shape.dtype.size // WORD // 2


def _made_registers(shape: GradientShape, tile: int) -> int:
    """For its share of results and of both kinds of scores."""
    return (shape.depth + (0 if shape.result_2 is None else shape.width)) // 2 + tile


def _shape(gradient: AttentionGradient, pattern: Pattern) -> GradientShape:
    """Sizes; rows are what blocks have some of."""
    own, own_2, other, _ = gradient.operands
    *leading, rows, depth = own.dims
    first, second, third, fourth = (operand_rows(operand, pattern) for operand in gradient.operands)
    results = [_result_rows(end, stored) for end, stored in zip(gradient.sums, gradient.results, strict=True)]
    return GradientShape(gradient.scores.matmul.type.dtype, math.prod(leading[:-1]), leading[-1] if leading else 1,
                         rows, other.dims[-2], depth, own_2.dims[-1], first, second, third, fourth,
                         results[0], results[1] if gradient.by_keys else None,
                         gradient.unseen.mask if gradient.unseen else None)


def _result_rows(end: Sum, stored: Node) -> Rows:
    strides = end.strides(stored)
    assert strides is not None
    *leading, last, columns = end.matmul.type.dims
    return as_rows((*leading, columns, last) if end.exchanged else end.matmul.type.dims, strides.axes, 0)


def _retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    raise ScheduleError("gradients of attention have no template but their own", schedule.dominant.loc)


_TILINGS = Tilings(((GRID, Slot(LevelKind.CTA, "rows_per_block", always=True)), (STEPS, ACROSS, ITEMS)), _retile)

ATTENTION_GRADIENT = KernelFamily(NAME, propose_attention_gradient, lower_attention_gradient, lambda schedule: _TILINGS,
                                  matmuls=True)
