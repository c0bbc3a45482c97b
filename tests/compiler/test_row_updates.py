"""Scatters in place are merged with what computes their rows, where that is right and faster."""

from __future__ import annotations

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compare, compiled, random_values, reference, run_kernel_ir
from tests.support.cuda_on_cpu import ADVERSARIES, run_on_cpu
from tf_stitch.compiler import pipeline
from tf_stitch.compiler.compile_pattern import compile_pattern
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.compiler.row_updates import with_row_updates
from tf_stitch.device.spec import CPU, H200
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import Combine, ScatterAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.text_format import format_graph
from tf_stitch.placement.storage import plan_buffers
from tf_stitch.planning.pattern import Pattern

B, F32, I32 = p.B, DType.F32, DType.I32
SIZE = (64, 256)


def cache() -> Node:
    return B.input("cache", F32, SIZE)


def rows() -> Node:
    return p.softmax(B.input("x", F32, (4, 256)))


def written(before: Node, values: Node, combine: Combine = Combine.SET) -> Node:
    numbers = B.add(B.iota((4,), 0, I32), B.input("at", I32, (1,)))
    return B.scatter(before, numbers, values, SIZE, combine, in_place=True)


def graph_of(*outputs: Node) -> TensorGraph:
    return TensorGraph("g", [(f"o{i}", node) for i, node in enumerate(outputs)])


def families(built: CompiledRegion) -> list[str]:
    return [kernel.schedule.family for kernel in built.kernels]


def check(graph: TensorGraph, built: CompiledRegion) -> None:
    values = random_values(graph)
    values["at"][:] = 17
    wanted = reference(graph, values)
    compare(graph, run_kernel_ir(graph, built, values), *wanted, "kernel IR")
    for adversary in ADVERSARIES[:2]:
        compare(graph, run_on_cpu(graph, built, values, adversary), *wanted, "CUDA")


def test_one_kernel_and_the_text_of_its_graph() -> None:
    graph = graph_of(written(cache(), rows()))
    built = compiled(graph, H200)
    assert families(built) == ["row_update"]
    assert "in_place=True, rows_only=True" in format_graph(built.plan.graph)
    check(graph, built)


def test_a_chain_whose_readers_see_what_there_is_then() -> None:
    """The second rows are made of the tensor as the first left it, as a layer's are of the cache."""
    first = written(cache(), rows())
    seen = B.exp(B.neg(B.reduce(OpKind.MAX, first, [0], True)))
    more = p.softmax(B.mul(B.input("y", F32, (4, 256)), B.broadcast(seen, (4, 256))))
    second = B.scatter(first, B.iota((4,), 0, I32), more, SIZE, Combine.SET, in_place=True)
    graph = graph_of(second, B.sum(second, [1]))
    built = compiled(graph, H200)
    assert families(built).count("row_update") == 2
    assert "scatter" not in families(built)
    assert built.executable.updated == ((0, built.executable.inputs.index("cache")),)
    check(graph, built)


def test_what_else_the_kernel_computes() -> None:
    values = rows()
    graph = graph_of(written(cache(), values), B.sum(B.exp(values), [1]))
    built = compiled(graph, H200)
    assert "scatter" not in families(built) or len(built.kernels) == 1
    check(graph, built)


@pytest.mark.parametrize("combine", [Combine.SUM, Combine.MAX])
def test_rows_that_are_combined_stay_scatters(combine: Combine) -> None:
    graph = graph_of(written(cache(), rows(), combine))
    built = compiled(graph, H200)
    assert "scatter" in families(built)
    check(graph, built)


def test_a_tensor_that_is_copied() -> None:
    """Somebody needs both what there was and what there is."""
    old = cache()
    new = written(old, rows())
    graph = graph_of(new, B.sub(new, old))
    built = compiled(graph, H200)
    assert built.buffers.copying
    assert "row_update" not in families(built)
    check(graph, built)


def test_a_reader_of_the_old_value_that_needs_the_rows() -> None:
    """It comes between: who computes the rows cannot write them yet."""
    old, values = cache(), rows()
    seen = B.sum(B.mul(old, B.broadcast(B.reduce(OpKind.MAX, values, [0], True), SIZE)), [0])
    graph = graph_of(written(old, values), seen)
    built = compiled(graph, H200)
    assert built.executable.updated
    assert "row_update" not in families(built)
    check(graph, built)


def test_tasks_of_a_cpu_stay_as_they_are() -> None:
    assert "row_update" not in families(compiled(graph_of(written(cache(), rows())), CPU))


def test_slower_kernels_are_not_merged() -> None:
    graph = graph_of(written(cache(), rows()))
    compiler = PatternCompiler(H200, True)
    plan = pipeline._planned(graph, compiler, CompileOptions(H200))
    kernels = [compiler.compile(pattern) for pattern in plan.patterns]
    keys = tuple(n.attrs.key for n in graph.inputs())
    buffers = plan_buffers(plan.graph, kernels, keys, (), True, H200.profile.sizes.order_bytes)
    assert len(kernels) == 2

    def us_of(pattern: Pattern) -> float:
        is_merged = any(isinstance(n.attrs, ScatterAttrs) and n.attrs.rows_only for n in pattern.nodes)
        return 4.0 if is_merged else 2.0

    assert with_row_updates(plan, buffers, us_of, lambda kernel: 1.9) is plan
    assert with_row_updates(plan, buffers, us_of, lambda kernel: 2.1) is not plan


def test_rows_alone_are_never_written_elsewhere() -> None:
    """Kernels in an order in which the old value is read later: there is none then."""
    old = cache()
    new = written(old, rows())
    built = compiled(graph_of(new), H200)
    [update] = built.kernels
    [merged] = [n for n in built.plan.graph.nodes() if isinstance(n.attrs, ScatterAttrs)]
    late = B.exp(merged.operands[0])
    graph = graph_of(merged, late)
    reader = compile_pattern(Pattern((late,), (late,), frozenset()), H200)
    keys = tuple(n.attrs.key for n in graph.inputs())
    assert plan_buffers(graph, [reader, update], keys, (), True, H200.profile.sizes.order_bytes).updated
    with pytest.raises(ScheduleError, match="rows alone"):
        plan_buffers(graph, [update, reader], keys, (), True, H200.profile.sizes.order_bytes)
