"""Lowered programs: what is computed once, what is loaded by vectors, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compiled, region
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.families.column.propose import propose_column
from tf_stitch.families.elementwise import propose_elementwise
from tf_stitch.families.registry import lower
from tf_stitch.families.row.propose import propose_row
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, users_of
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.planning.free_nodes import free_nodes, live_out, plannable
from tf_stitch.planning.pattern import make_pattern

B, F32, K = p.B, DType.F32, OpKind


def x(*shape: int) -> Node:
    return B.input(f"x{shape}:0", F32, shape)


def statements(body: Sequence[k.Stmt]) -> Iterator[k.Stmt]:
    for stmt in body:
        yield stmt
        if isinstance(stmt, k.For):
            yield from statements(stmt.body)
        elif isinstance(stmt, k.If):
            yield from statements(stmt.body)
            yield from statements(stmt.orelse)


def expressions(body: Sequence[k.Stmt]) -> Iterator[k.Expr]:
    stack: list[k.Expr] = []
    for stmt in statements(body):
        if isinstance(stmt, k.Let | k.Update | k.Assign | k.Store | k.SetElement | k.ArgUpdate):
            stack.append(stmt.value)
    while stack:
        expr = stack.pop()
        yield expr
        if isinstance(expr, k.Apply):
            stack.extend(expr.args)


def only(device: DeviceSpec, *outputs: Node) -> k.Program:
    kernels = compiled(region("g", list(outputs)), device).kernels
    assert len(kernels) == 1
    return kernels[0].program


def count(program: k.Program, kind: OpKind) -> int:
    return sum(isinstance(e, k.Apply) and e.kind is kind for e in expressions(program.body))


def test_a_value_with_several_consumers_is_computed_once() -> None:
    e = B.exp(x(64, 128))
    program = only(CPU, B.add(e, B.neg(e)), B.mul(e, e))
    assert count(program, K.EXP) == 1
    assert sum(isinstance(ex, k.Load) for ex in expressions(program.body)) == 1


def test_softmax_reads_memory_once_on_a_gpu() -> None:
    """A4: the row stays in registers between the phases."""
    program = only(H200, p.softmax(x(64, 1024)))
    assert sum(isinstance(s, k.LoadVector) for s in statements(program.body)) == 1
    assert not any(isinstance(e, k.Load) for e in expressions(program.body))
    assert count(program, K.EXP) == 1


def test_vectors_only_where_rows_allow_them() -> None:
    assert any(isinstance(s, k.StoreVector) and s.width == 4 for s in statements(only(H200, B.exp(x(999, 64))).body))
    assert not any(isinstance(s, k.LoadVector) for s in statements(only(H200, B.exp(x(7, 9))).body))
    transposed = only(H200, B.transpose(B.exp(x(64, 32)), [1, 0]))
    # Its lanes are no neighbours in memory.
    assert not any(isinstance(s, k.LoadVector) for s in statements(transposed.body))


def test_one_of_many_values_is_found_by_halves_without_branches() -> None:
    parts = [B.input(f"p{i}:0", F32, (1,)) for i in range(16)]
    program = only(H200, B.exp(B.concat(parts, 0)))
    depth: dict[str, int] = {}
    for stmt in statements(program.body):
        assert not isinstance(stmt, k.If) or not stmt.orelse
        if isinstance(stmt, k.Let) and isinstance(stmt.value, k.Apply) and stmt.value.kind is K.SELECT:
            depth[stmt.name] = 1 + max(depth.get(a.name, 0) for a in stmt.value.args if isinstance(a, k.Local))
    assert len(depth) == 15
    assert max(depth.values()) == 4


def test_a_part_of_a_concatenation_is_found_by_halves() -> None:
    def depth(body: Sequence[k.Stmt]) -> int:
        inner = [1 + max(depth(s.body), depth(s.orelse)) if isinstance(s, k.If) else depth(s.body)
                 for s in body if isinstance(s, k.If | k.For)]  # fmt: skip
        return max(inner, default=0)

    parts = [B.input(f"p{i}:0", F32, (64, 1, 16)) for i in range(27)]
    assert depth(only(CPU, B.concat(parts, 1)).body) == 5


def test_neighbours_of_a_tile_at_the_rim_are_neighbours_in_memory() -> None:
    """An index that is clamped would keep a compiler from vectors."""
    tiles = only(CPU, B.transpose(x(70, 729), [1, 0]))
    assert all(s.limit is None for s in statements(tiles.body) if isinstance(s, k.LetIndex))


def test_row_values_leave_the_loop_over_columns() -> None:
    row = B.exp(x(8, 1))
    program = only(CPU, B.mul(x(8, 100), row))
    loop = next(s for s in program.body if isinstance(s, k.For))
    assert not any(isinstance(e, k.Apply) and e.kind is K.EXP for e in expressions(loop.body))


def test_what_a_later_phase_loads_of_a_row_is_under_way_from_the_start() -> None:
    """A label that is read behind the first reduction would be waited for there, row by row."""
    row, label = x(600, 4096), B.input("label:0", DType.I32, (600,))
    shifted = B.sub(row, B.reduce(K.MAX, row, (1,), True))
    chosen = p.one_hot(label, 4096, F32)
    program = only(H200, B.sub(B.op(K.LOG, B.sum(B.exp(shifted), [1])), B.sum(B.mul(shifted, chosen), [1])))
    body = list(program.body)
    loads = [i for i, s in enumerate(body) if isinstance(s, k.Let) and isinstance(s.value, k.Load)]
    assert loads
    assert max(loads) < next(i for i, s in enumerate(body) if isinstance(s, k.For))


def test_what_a_guard_protects_stays_inside() -> None:
    table, ids = x(5, 4), B.input("ids:0", DType.I32, (3,))
    padded = B.pad(B.op(K.GATHER, table, ids), B.constant(0, F32), [1, 0], [1, 0])
    program = only(CPU, B.neg(padded))
    outside = [s for s in program.body if isinstance(s, k.Fail)]
    assert not outside, "a gather behind a pad must not run for the padding"


@pytest.mark.parametrize(("rule", "outputs", "reason"), [
    (propose_row, lambda: [B.sum(p.softmax(x(8, 6)), [1]), B.exp(x(3, 3))], "neither a row nor an element"),
    (propose_row, lambda: [B.mul(x(6, 6), B.sum(x(6, 6), [1]))], "other rows than its own"),
    (propose_column, lambda: [B.sub(x(8, 6), B.sum(x(8, 6), [0], True))], "neither a column nor an element"),
    (propose_elementwise, lambda: [B.exp(x(8, 6)), B.exp(x(6, 8))], None),
])
def test_patterns_that_are_not_local_are_refused(rule: object, outputs: object, reason: str | None) -> None:
    graph = region("g", outputs())  # type: ignore[operator]
    nodes = graph.nodes()
    free = free_nodes(nodes)
    pattern = make_pattern(plannable(graph, free), users_of(nodes), frozenset(live_out(graph)), free)
    if reason is None:
        assert lower(rule(pattern, H200, True)[0]).program.grid  # type: ignore[operator]
        return
    with pytest.raises(ScheduleError, match=reason):
        lower(rule(pattern, H200, True)[0])  # type: ignore[operator]


def test_arguments_match_parameters() -> None:
    outputs, assigns = p.adam([(64, 128), (128,)])
    for device in (CPU, H200):
        for kernel in compiled(region("adam", outputs, assigns), device).kernels:
            assert len(kernel.arguments) == len(kernel.program.parameters)
            for (node, mode), buffer in zip(kernel.arguments, kernel.program.parameters, strict=True):
                assert (buffer.size, buffer.dtype) == (node.type.numel, node.type.dtype)
                assert buffer.mode in (mode, k.Mode.UPDATE, k.Mode.SCRATCH)
