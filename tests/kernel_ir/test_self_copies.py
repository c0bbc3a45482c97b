"""Scatters to a variable in place: nothing is copied first, and nobody waits for that."""

from __future__ import annotations

import pytest

from tests.differential import patterns as p
from tests.differential.runner import compare, compiled, reference, region, run_host
from tests.families.test_scatter import rows, updates, values_of
from tests.support.cuda_on_cpu import Adversary, Order, run_on_cpu
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_attrs import Combine
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.index import Var, constant, var
from tf_stitch.kernel_ir.self_copies import without_self_copies
from tf_stitch.kernel_ir.walk import statements
from tf_stitch.placement.executable_format import StateMode

B, F32 = p.B, DType.F32
TABLE = B.variable("table", F32, (3000, 8))


def scattered(x: Node) -> TensorGraph:
    return region("g", [], {"table": B.scatter(TABLE, rows(40), x, (3000, 8), Combine.SUM)})


def check(graph: TensorGraph, device: DeviceSpec, mode: StateMode) -> list[k.Program]:
    built = compiled(graph, device)
    assert [found for _, found in built.executable.state] == [mode]
    values = values_of(graph, 30)
    got = run_on_cpu(graph, built, values, Adversary(Order.SHUFFLED)) if device.simt else run_host(graph, built, values)
    compare(graph, got, *reference(graph, values), device.name)
    return [kernel.program for kernel in built.kernels]


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_rows_that_occur_are_all_that_is_touched(device: DeviceSpec) -> None:
    x = updates(40, 8)
    [program] = check(scattered(B.mul(x, B.scalar_like(-0.1, x))), device, StateMode.IN_PLACE)
    assert not program.cooperative
    assert not any(isinstance(stmt, k.Store) for stmt in statements(program.body))


@pytest.mark.parametrize("device", [CPU, H200], ids=lambda d: d.name)
def test_a_table_that_the_updates_come_from_is_written_anew(device: DeviceSpec) -> None:
    """A row may be read when another update has been added to it."""
    found = check(scattered(B.op(p.OpKind.GATHER, TABLE, B.input("from:0", DType.I32, (40,)))), device, StateMode.FRESH)
    assert any(isinstance(stmt, k.Store) for program in found for stmt in statements(program.body))


def test_several_tables_in_place() -> None:
    """Their loops follow each other with nothing between, in a launch of their own."""
    gradient = updates(40, 16)
    tables = {f"table{i}": B.variable(f"table{i}", F32, (3000 + i, 8)) for i in range(2)}
    parts = [B.slice(gradient, [0, 8 * i], [1, 1], (40, 8)) for i in range(2)]
    graph = region("g", [B.exp(updates(3000, 7, key="y:0"))], {
        name: B.scatter(table, rows(40, f"rows{i}:0"), parts[i], table.type.shape, Combine.SUM)
        for i, (name, table) in enumerate(tables.items())})
    built = compiled(graph, H200)
    [program] = [kernel.program for kernel in built.kernels if len(kernel.schedule.pattern.outputs) == 2]
    assert program.looped
    assert program.alone
    assert not program.cooperative
    values = values_of(graph, 30)
    compare(graph, run_on_cpu(graph, built, values, Adversary(Order.SHUFFLED)), *reference(graph, values), "H200")


def test_other_stores_stay() -> None:
    i = Var("i", 4)
    load = k.Load("a", var(i), F32)
    buffers = tuple(k.Buffer(name, F32, 4, k.Mode.UPDATE) for name in ("a", "b", "c"))
    copies = k.For(i, (k.Let("x", load), k.Store("b", var(i), k.Local("x", F32)), k.Store("b", var(i), load)))
    moves = k.For(i, (k.Store("b", constant(0), load), k.Store("c", var(i), load)))
    program = k.Program(buffers, 1, 1, (copies, moves))
    assert without_self_copies(program, {"a", "b"}).body == (moves,)
    assert without_self_copies(program, {"b"}).body == (copies, moves)
