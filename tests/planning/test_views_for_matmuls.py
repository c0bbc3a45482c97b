"""Transposes and slices that only matmuls read are no kernel's work, where the library reads such matrices."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import check_all, compiled, region
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.text_parser import parse_graph
from tf_stitch.planning.limited_patterns import limit_patterns
from tf_stitch.planning.plan_groups import groups_of, plan_of

B, F32 = p.B, DType.F32
SEQUENCES, HEADS, DEPTH = 3, 4, 20
BY_HEADS, KEYS_BY_HEADS = (0, 2, 1, 3), (0, 2, 3, 1)


def heads(x: Node, perm: tuple[int, ...]) -> Node:
    return B.transpose(B.reshape(x, (SEQUENCES, x.type.dims[1], HEADS, DEPTH)), perm)


def attention(q: Node, k: Node, v: Node) -> Node:
    """Of queries and values [sequences, heads, length, depth], and keys or their transposes."""
    weights = p.softmax(B.dot(q, k, False, k.type.dims[-1] == DEPTH))
    together = B.transpose(B.dot(weights, v), BY_HEADS)
    return B.reshape(together, (SEQUENCES, together.type.dims[1], HEADS * DEPTH))


def work(graph: TensorGraph, device: DeviceSpec = CPU) -> str:
    """A line for each kernel with what it moves, and for each library call."""
    result = compiled(graph, device)
    moves = (OpKind.TRANSPOSE, OpKind.SLICE)
    kernels = [" ".join([k.schedule.family, *(n.kind.value for n in k.schedule.pattern.nodes if n.kind in moves)])
               for k in result.kernels]
    return "\n".join([*kernels, *(str(c.call) for c in result.calls)])


def projected(m: int, length: int, dtype: DType = F32, keys: tuple[int, ...] = BY_HEADS) -> TensorGraph:
    lengths = {"q": m, "k": length, "v": length}
    q, k, v = (B.input(name, dtype, (SEQUENCES, n, HEADS * DEPTH)) for name, n in lengths.items())
    return region("heads", [attention(heads(q, BY_HEADS), heads(k, keys), heads(v, BY_HEADS))])


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16, DType.BF16])
@pytest.mark.parametrize("keys", [BY_HEADS, KEYS_BY_HEADS])
@pytest.mark.parametrize("m", [1, 24])
def test_heads_of_several_sequences(m: int, keys: tuple[int, ...], dtype: DType) -> None:
    graph = projected(m, 24, dtype, keys)
    assert work(graph) == f"""\
row_reduction
gemm {dtype.value} 12x[{m},20]x[20,24] nt
gemm {dtype.value} 12x[{m},24]x[24,20] nn{" transposed" if m > 1 else ""}"""
    check_all(graph, interpret_cpu=True, cuda=False)


def test_a_library_of_one_distance_gets_copies() -> None:
    assert work(projected(24, 24, DType.F64), H200).count("transpose") == 4


CACHED = """\
graph cached
  %0 = input() {key=q, type=float32[3,1,80]} : float32[3,1,80]
  %1 = reshape(%0) {shape=[3,1,4,20]} : float32[3,1,4,20]
  %2 = transpose(%1) {perm=[0,2,1,3]} : float32[3,4,1,20]
  %3 = variable() {handle=cache, type=float32[3,3,2,24,4,20]} : float32[3,3,2,24,4,20]
  %4 = slice(%3) {begin=[0,1,0,0,0,0], strides=[1,1,1,1,1,1], sizes=[3,1,1,24,4,20]} : float32[3,1,1,24,4,20]
  %5 = reshape(%4) {shape=[3,24,4,20]} : float32[3,24,4,20]
  %6 = transpose(%5) {perm=[0,2,1,3]} : float32[3,4,24,20]
  %7 = dot(%2, %6) {transpose_a=False, transpose_b=True} : float32[3,4,1,24]
  %8 = max(%7) {axes=[3]} : float32[3,4,1]
  %9 = reshape(%8) {shape=[3,4,1,1]} : float32[3,4,1,1]
  %10 = sub(%7, %9) : float32[3,4,1,24]
  %11 = exp(%10) : float32[3,4,1,24]
  %12 = sum(%11) {axes=[3]} : float32[3,4,1]
  %13 = reshape(%12) {shape=[3,4,1,1]} : float32[3,4,1,1]
  %14 = div(%11, %13) : float32[3,4,1,24]
  %15 = slice(%3) {begin=[0,1,1,0,0,0], strides=[1,1,1,1,1,1], sizes=[3,1,1,24,4,20]} : float32[3,1,1,24,4,20]
  %16 = reshape(%15) {shape=[3,24,4,20]} : float32[3,24,4,20]
  %17 = transpose(%16) {perm=[0,2,1,3]} : float32[3,4,24,20]
  %18 = dot(%14, %17) {transpose_a=False, transpose_b=False} : float32[3,4,1,20]
  %19 = transpose(%18) {perm=[0,2,1,3]} : float32[3,1,4,20]
  %20 = reshape(%19) {shape=[3,1,80]} : float32[3,1,80]
  out o0 = %20
"""
"""The second of three layers of a cache [sequences, layers, keys or values, length, heads, depth]."""


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_a_layer_of_a_cache_is_read_where_it_lies(dtype: DType) -> None:
    graph = parse_graph(CACHED.replace("float32", dtype.value))
    assert work(graph) == f"""\
row_reduction
gemm {dtype.value} 12x[1,20]x[20,24] nt
gemm {dtype.value} 12x[1,24]x[24,20] nn"""
    [scores, mixed] = [call.call for call in compiled(graph, CPU).calls]
    assert (scores.b.offset, mixed.b.offset) == (2 * 24 * 80, 3 * 24 * 80)  # type: ignore[attr-defined]
    check_all(graph, interpret_cpu=True, cuda=False)


def test_what_others_read_too_lies_in_memory() -> None:
    x, w = B.input("x", F32, (SEQUENCES, 24, HEADS * DEPTH)), B.input("w", F32, (SEQUENCES, HEADS, DEPTH, 24))
    moved = heads(x, BY_HEADS)
    for other in (moved, B.exp(moved), B.sum(moved, [3])):
        graph = region("both", [B.dot(moved, w), other])
        assert "transpose" in work(graph)
        check_all(graph, interpret_cpu=True, cuda=False)


def test_a_view_of_what_is_stored_is_read_there() -> None:
    """One matmul reads a slice of a transpose, which is live-out: both lie in memory, or are read from there."""
    x, w = B.input("x", F32, (SEQUENCES, 24, HEADS * DEPTH)), B.input("w", F32, (SEQUENCES, HEADS, DEPTH, 24))
    moved = heads(x, BY_HEADS)
    part = B.slice(moved, (0, 0, 2, 0), (1, 1, 1, 1), (SEQUENCES, HEADS, 18, DEPTH))
    graph = region("part", [B.dot(part, w), moved])
    assert work(graph) == "elementwise transpose\ngemm float32 12x[18,20]x[20,24] nn"
    check_all(graph, interpret_cpu=True, cuda=False)


def test_a_view_that_one_of_two_matmuls_cannot_read() -> None:
    """[b, h, t, d] of which one matmul merges sequences, heads and rows: that one needs a copy, and so both read it."""
    x, w = B.input("x", F32, (SEQUENCES, 24, HEADS * DEPTH)), B.input("w", F32, (SEQUENCES, HEADS, DEPTH, 24))
    moved = heads(x, BY_HEADS)
    merged = B.reshape(moved, (SEQUENCES * HEADS * 24, DEPTH))
    graph = region("merged", [B.dot(moved, w), B.dot(merged, B.input("u", F32, (DEPTH, 40)))])
    assert work(graph).count("transpose") == 1
    check_all(graph, interpret_cpu=True, cuda=False)


def test_heads_that_are_counted_as_one_batch() -> None:
    """[b, h, t, d] as [b x h, t, d] before a matmul, and back behind it."""
    x, w = B.input("x", F32, (SEQUENCES, 24, HEADS * DEPTH)), B.input("w", F32, (SEQUENCES * HEADS, DEPTH, 30))
    dot = B.dot(B.reshape(heads(x, BY_HEADS), (SEQUENCES * HEADS, 24, DEPTH)), w)
    back = B.transpose(B.reshape(dot, (SEQUENCES, HEADS, 24, 30)), BY_HEADS)
    graph = region("batch", [B.reshape(back, (SEQUENCES * 24, HEADS * 30))])
    assert work(graph) == "gemm float32 12x[24,20]x[20,30] nn transposed"
    check_all(graph, interpret_cpu=True, cuda=False)


@pytest.mark.parametrize("kind", ["constant", "backwards", "gaps"])
def test_views_that_have_to_be_copied(kind: str) -> None:
    w = B.input("w", F32, (SEQUENCES, HEADS, DEPTH, 24))
    x = B.input("x", F32, (SEQUENCES, 24, HEADS, 2 * DEPTH))
    if kind == "constant":
        part = B.constant(np.ones((SEQUENCES, 24, HEADS, DEPTH), np.float32), F32)
    else:
        begin, step = ((0, 23, 0, 0), (1, -1, 1, 1)) if kind == "backwards" else ((0,) * 4, (1, 1, 1, 2))
        part = B.slice(x, begin, step, (SEQUENCES, 24, HEADS, DEPTH))
    check_all(region(kind, [B.dot(B.transpose(part, BY_HEADS), w)]), interpret_cpu=True, cuda=False)


def test_plans_that_are_made_anew_read_the_same_views() -> None:
    plan = compiled(parse_graph(CACHED), CPU).plan
    again = plan_of(plan.graph, groups_of(plan), plan.solver, plan.libraries)
    assert (again.patterns, again.free) == (plan.patterns, plan.free)
    assert limit_patterns(plan, 0).free == plan.free
    with pytest.raises(ValueError, match="not every node"):
        plan_of(plan.graph, groups_of(plan), plan.solver)
