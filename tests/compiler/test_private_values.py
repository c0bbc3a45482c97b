"""Values that every kernel computes that wants them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.differential.runner import random_values, region
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.compiler.pipeline import passes
from tf_stitch.compiler.private_values import with_private_values
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.pass_manager import run_passes
from tf_stitch.planning.free_nodes import plannable
from tf_stitch.planning.pattern import Pattern
from tf_stitch.planning.plan_groups import plan_of
from tf_stitch.planning.planner import plan_region
from tf_stitch.planning.stitch_plan import StitchPlan

B, F32 = Builder(), DType.F32
ROWS, COLUMNS = 8192, 64  # 2 MiB


def normalized(value: Node) -> TensorGraph:
    """A value by what its columns sum to: no kernel has both."""
    return region("g", [B.mul(value, B.op(OpKind.RSQRT, B.sum(B.square(value), [0])))])


def planned(graph: TensorGraph, us_of: Callable[[Pattern], float | None] | None = None
            ) -> tuple[StitchPlan, StitchPlan]:
    """As it was, and as it became."""
    compiler = PatternCompiler(H200, aligned=True)
    plan = plan_region(run_passes(graph, passes(H200)), compiler, LIBRARIES)
    return plan, with_private_values(plan, us_of or compiler.exact, H200.profile.sizes.cycles_per_byte)


def large(plan: StitchPlan) -> list[Node]:
    """What kernels write of ROWS, the result left out."""
    return [n for p in plan.patterns for n in p.outputs if n.type.dims == (ROWS, COLUMNS) and n.kind is not OpKind.MUL]


def assert_same(one: TensorGraph, other: TensorGraph) -> None:
    values = random_values(other)
    np.testing.assert_allclose(interpret(one, values)["o0"], interpret(other, values)["o0"], rtol=1e-4, atol=1e-6)


def inputs(count: int) -> list[Node]:
    return [B.input(f"x{i}:0", F32, (ROWS, COLUMNS)) for i in range(count)]


def test_who_wants_a_sum_of_something_in_memory_and_a_row_adds_them() -> None:
    [x] = inputs(1)
    graph = normalized(B.add(x, B.input("bias:0", F32, (COLUMNS,))))
    before, after = planned(graph)
    assert len(large(before)) == 1
    assert not large(after)
    assert_same(after.graph, graph)


def test_what_is_computed_of_such_a_value_is_one() -> None:
    [x] = inputs(1)
    shifted = B.add(x, B.input("bias:0", F32, (COLUMNS,)))
    deviation = B.sub(shifted, B.sum(shifted, [0]))
    graph = normalized(deviation)
    before, after = planned(graph)
    assert large(before)
    assert not large(after)
    assert_same(after.graph, graph)


def test_what_reads_more_than_it_saves_is_written() -> None:
    """Of two: one that is written, and one that is read, for one more that is read in its place."""
    x, y = inputs(2)
    before, after = planned(normalized(B.add(x, y)))
    assert after is before
    assert len(large(after)) == 1


def test_much_arithmetic_is_done_once() -> None:
    [x] = inputs(1)
    for _ in range(4):
        x = B.op(OpKind.ERF, x)
    before, after = planned(normalized(x))
    assert after is before
    assert len(large(after)) == 1


@pytest.mark.parametrize("wanted", [False, True])
def test_an_output_is_written(wanted: bool) -> None:
    [x] = inputs(1)
    value = B.add(x, B.input("bias:0", F32, (COLUMNS,)))
    [(_, result)] = normalized(value).outputs
    before, after = planned(region("g", [result, value] if wanted else [result]))
    assert (after is before) == wanted


def test_readers_that_would_be_no_kernels_read_it() -> None:
    [x] = inputs(1)
    before, after = planned(normalized(B.add(x, B.input("bias:0", F32, (COLUMNS,)))), lambda pattern: None)
    assert after is before


def test_what_takes_longer_to_compute_than_to_read_is_read() -> None:
    """By kernels that take a microsecond for each op."""
    [x] = inputs(1)
    graph = normalized(B.add(x, B.input("bias:0", F32, (COLUMNS,))))
    before, after = planned(graph, lambda pattern: float(len(pattern.nodes)))
    assert after is before


def test_a_kernel_that_wrote_nothing_else_is_gone() -> None:
    """Of a plan of a kernel for each op."""
    [x] = inputs(1)
    value = B.add(x, B.input("bias:0", F32, (COLUMNS,)))
    graph = region("g", [B.op(OpKind.ABS, value), B.neg(value)])
    compiler = PatternCompiler(H200, aligned=True)
    free = plan_region(graph, compiler, LIBRARIES).free
    plan = plan_of(graph, [[i] for i, node in enumerate(graph.nodes()) if node in plannable(graph, free)], None)
    after = with_private_values(plan, compiler.exact, H200.profile.sizes.cycles_per_byte)
    assert [len(p.nodes) for p in plan.patterns] == [1, 1, 1]
    assert [[n.kind for n in p.nodes] for p in after.patterns] == [[OpKind.ADD, OpKind.ABS], [OpKind.ADD, OpKind.NEG]]
    assert_same(after.graph, graph)
