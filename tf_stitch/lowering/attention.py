"""Lowers attention: where its operands lie, and what becomes of a score before softmax."""

from __future__ import annotations

import math
from dataclasses import replace

from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.matrices import contiguous_strides
from tf_stitch.ir.op_attrs import TransposeAttrs
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.attention import AttentionShape, Rows, shared_words
from tf_stitch.kernel_ir.index import Var, delinearize, linearize, var
from tf_stitch.lowering.buffers import BufferTable
from tf_stitch.lowering.evaluate import Evaluator
from tf_stitch.lowering.kernel import LoweredKernel, finish
from tf_stitch.lowering.scopes import ScopedEmitter
from tf_stitch.planning.attention import Attention, Operand, even_stride, memory_of
from tf_stitch.planning.stitch_plan import attention_of
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.rules.attention import tiling_of

TILES, SCORE = "tiles", "score"


def lower_attention(schedule: KernelSchedule) -> LoweredKernel:
    """The kernel of an attention schedule."""
    attention = attention_of(schedule.pattern)
    assert attention is not None
    buffers = BufferTable(schedule.pattern)
    out = ScopedEmitter(buffers.size)
    evaluator = Evaluator(schedule, buffers, out)
    q, k_, v = (buffers.reading(memory_of(o, schedule.pattern.free)[0]) for o in attention.operands)
    shape, tiling = _shape(attention, schedule), tiling_of(schedule.mapping)
    words = shared_words(shape.keys, (shape.depth, shape.width), shape.dtype, tiling)
    out.emit(k.Array(TILES, DType.F32, words, k.Space.SHARED))
    outer, head = Var("outer", shape.outer), Var("head", shape.heads)
    query, key = Var("query", shape.queries), Var("key", shape.keys)
    with out.element((outer, head, query, key), SCORE) as body:
        leading = attention.scores.type.dims[:-2]
        place = (*delinearize(var(outer) * shape.heads + var(head), leading), var(query), var(key))
        own = (*place[:-2], *(place[:-3:-1] if attention.keys_first else place[-2:]))
        evaluator.reduced[attention.first] = k.Local(SCORE, DType.F32), linearize(own, attention.first.type.dims)
        out.emit(k.Assign(SCORE, evaluator.value(attention.scores, place)))
    result = buffers.writing(attention.result)
    out.emit(k.Comment("a softmax of scores, queries times keys, weighs the values; each block has some queries",
                       schedule.pattern.names([attention.result])))
    out.emit(k.Attention(shape, tiling, q, k_, v, result, TILES, outer, head, query, key, SCORE, tuple(body)))
    kernel = finish(schedule, out, buffers)
    return replace(kernel, program=replace(kernel.program, resident=schedule.resident))


def _shape(attention: Attention, schedule: KernelSchedule) -> AttentionShape:
    *leading, queries, width = attention.second.type.dims
    *_, keys = attention.scores.type.dims
    heads = leading[-1] if leading else 1
    rows = [_rows(operand, schedule) for operand in attention.operands]
    return AttentionShape(attention.first.type.dtype, math.prod(leading[:-1]), heads, queries, keys,
                          attention.depth, width,
                          rows[0], rows[1], rows[2], _result_rows(attention))


def _rows(operand: Operand, schedule: KernelSchedule) -> Rows:
    memory, path = memory_of(operand, schedule.pattern.free)
    strides = operand.strides(path, memory)
    assert strides is not None
    return _as_rows(operand.node.type.dims, strides.axes, strides.offset)


def _result_rows(attention: Attention) -> Rows:
    strides = contiguous_strides(attention.result.type.dims)
    if isinstance(attention.result.attrs, TransposeAttrs):
        perm = attention.result.attrs.perm
        strides = [strides[perm.index(axis)] for axis in range(len(perm))]
    return _as_rows(attention.second.type.dims, strides, 0)


def _as_rows(dims: tuple[int, ...], strides: tuple[int, ...] | list[int], offset: int) -> Rows:
    *leading, row, _ = strides
    return Rows(even_stride(dims[:-3], leading[:-1]), leading[-1] if leading else 0, row, offset)
