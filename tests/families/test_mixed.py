"""Rows and sums across rows in one kernel: what a thread reads, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tests.differential import patterns as p
from tests.differential.runner import compare, random_values, reference, region
from tests.support.whole_patterns import whole
from tf_stitch.device.spec import CPU, H200
from tf_stitch.families.mixed import REGISTER_BUDGET, lower_mixed, propose_mixed
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph, key_of, users_of
from tf_stitch.ir.op_kinds import CALLED
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.interpreter import interpret_program
from tf_stitch.kernel_ir.verifier import verify_program
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.free_nodes import free_nodes, live_out, plannable
from tf_stitch.planning.pattern import make_pattern

B = p.B
BLOCKS, ROWS = 3, 18
"""Six rows of a block: too few to copy the next one ahead."""


def matrix(name: str, rows: int, cols: int, dtype: DType) -> Node:
    return B.input(f"{name}:0", dtype, (rows, cols))


def outputs(cols: int, dtype: DType, addends: int = 1, rows: int = ROWS) -> list[Node]:
    """As the gradient of a norm: rows scaled by a sum of theirs, to which others are added; sums across rows."""
    x, y = (matrix(name, rows, cols, dtype) for name in "xy")
    product = B.mul(x, y)
    total = B.mul(x, B.sum(product, [1], True))
    for i in range(addends):
        total = B.add(total, matrix(f"addend{i}", rows, cols, dtype))
    return [total, *(B.sum(B.reshape(v, (BLOCKS, rows // BLOCKS, cols)), [1]) for v in (product, total))]


def kernel(graph: TensorGraph) -> LoweredKernel:
    """Of all but matmuls."""
    nodes = graph.nodes()
    free = free_nodes(nodes)
    members = [node for node in plannable(graph, free) if node.category not in CALLED]
    pattern = make_pattern(members, users_of(nodes), frozenset(live_out(graph)), free)
    lowered = lower_mixed(propose_mixed(pattern, H200, True)[0])
    verify_program(lowered.program)
    return lowered


def loads(body: Sequence[k.Stmt]) -> Iterator[str]:
    """Buffers in the order they are read, and "reduce" where threads wait for each other."""
    for stmt in body:
        if isinstance(stmt, k.LoadVector):
            yield stmt.buffer
        elif isinstance(stmt, k.Let) and isinstance(stmt.value, k.Load):
            yield stmt.value.buffer
        elif isinstance(stmt, k.AllReduce):
            yield "reduce"
        elif isinstance(stmt, k.For | k.If):
            yield from loads(stmt.body)


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16])
def test_a_row_is_read_once_and_before_its_reductions(dtype: DType) -> None:
    found = kernel(region("norm", outputs(320, dtype)))
    assert [s.early for s in found.schedule.staged] == [False, True]
    *read, last = loads(found.program.body)
    assert len(read) == len(set(read)) == 3
    assert last == "reduce"


def test_what_matmuls_wrote_is_read_once() -> None:
    """By another shape than theirs."""
    cols, dtype = 320, DType.BF16
    matmul = B.dot(B.input("a:0", dtype, (ROWS, 512)), B.input("b:0", dtype, (512, cols)))
    x = B.reshape(matmul, (ROWS // 2, 2, cols))
    y = B.input("y:0", dtype, x.type.shape)
    total = B.add(B.mul(x, B.sum(B.mul(x, y), [2], True)), y)
    found = kernel(region("norm", [total, B.sum(B.reshape(total, (BLOCKS, ROWS // BLOCKS, cols)), [1])]))
    assert matmul in [s.node for s in found.schedule.staged]
    *read, last = loads(found.program.body)
    assert len(read) == len(set(read)) == 2
    assert last == "reduce"


def test_rows_of_few_accesses_have_a_thread_each() -> None:
    """40 accesses of eight halves: of 32 threads eight would have two."""
    mapping = kernel(region("norm", outputs(320, DType.BF16))).schedule.mapping
    assert (mapping.threads, mapping.items) == (64, 1)


def test_what_registers_have_no_room_for_is_read_where_it_is_needed() -> None:
    [schedule] = propose_mixed(whole(*outputs(320, DType.BF16, addends=12)), H200, True)
    mapping = schedule.mapping
    early = sum(s.early for s in schedule.staged)
    assert 0 < early < 12
    assert (len(schedule.staged) + 2) * mapping.items * mapping.vector <= REGISTER_BUDGET


def test_tasks_keep_nothing_early() -> None:
    """A core's cache has what a row needs next."""
    [schedule] = propose_mixed(whole(*outputs(320, DType.F32)), CPU, True)
    assert not any(s.early for s in schedule.staged)


@pytest.mark.parametrize("rows", [ROWS, 2 * ROWS])
@pytest.mark.parametrize("cols", [320, 77, 2056])
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_computes_the_same(dtype: DType, cols: int, rows: int) -> None:
    """With twice the rows what is read early is copied a row ahead, where threads access 16 bytes."""
    graph = region("norm", outputs(cols, dtype, rows=rows))
    lowered, values = kernel(graph), random_values(graph)
    assert lowered.schedule.ahead == (rows > ROWS and cols % 2 == 0)
    want, allowed = reference(graph, values)
    arguments = list(zip(lowered.program.parameters, lowered.arguments, strict=True))
    buffers = {b.name: values[key_of(node)].flatten() if mode is k.Mode.READ else np.zeros(b.size, b.dtype.numpy)
               for b, (node, mode) in arguments}
    interpret_program(lowered.program, buffers)
    written = {node: buffers[b.name].reshape(node.type.dims) for b, (node, _) in arguments}
    compare(graph, {name: written[node] for name, node in graph.outputs}, want, allowed, "kernel IR")
