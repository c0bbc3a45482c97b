"""Matmuls of a tensor's rows with one matrix become one matmul, with the values that they had."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.differential.runner import random_values, region
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.ir.types import Shape
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.passes.batch_row_matmuls import BatchRowMatmuls

B, F32 = Builder(), DType.F32
STEPS, ROWS, TERMS, COLUMNS = 5, 3, 20, 30
JOIN = BatchRowMatmuls(small=16)


def step(x: Node, t: int, count: int = 1, stride: int = 1) -> Node:
    """`count` of x[t], x[t + stride], ..."""
    rank = x.type.rank
    return B.slice(x, [t] + [0] * (rank - 1), [stride] + [1] * (rank - 1), (count, *x.type.shape[1:]))


def inputs(shape: Shape = (STEPS, ROWS, TERMS), transpose: bool = False, columns: int = COLUMNS) -> tuple[Node, Node]:
    terms = shape[-1]
    return B.input("x:0", F32, shape), B.input("w:0", F32, (columns, terms) if transpose else (terms, columns))


def matmuls(order: Sequence[int], x: Node, w: Node, transpose: bool = False) -> list[Node]:
    *rows, terms = x.type.shape[1:]
    return [B.dot(B.reshape(step(x, t), (*(rows or [1]), terms)), w, transpose_b=transpose) for t in order]


def shapes(graph: TensorGraph) -> list[tuple[int, ...]]:
    return [n.type.dims for n in graph.nodes() if n.kind is OpKind.DOT]


def fused(outputs: list[Node]) -> TensorGraph:
    """The graph after the pass; values are as before."""
    before = region("g", outputs)
    result = JOIN.run(before)
    verify_graph(result.graph, static=True)
    assert result.modified is (shapes(result.graph) != shapes(before))
    values = random_values(before)
    want, got = interpret(before, values), interpret(result.graph, values)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-5, atol=1e-5)
    return result.graph


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("order", [range(STEPS), range(STEPS)[::-1], [2, 0, 4, 1, 3]])
def test_steps_of_a_loop(order: Sequence[int], transpose: bool) -> None:
    graph = fused([B.exp(p) for p in matmuls(order, *inputs(transpose=transpose), transpose)])
    assert shapes(graph) == [(STEPS * ROWS, COLUMNS)]


def test_rows_of_a_matrix() -> None:
    assert shapes(fused(matmuls(range(STEPS), *inputs((STEPS, TERMS))))) == [(STEPS, COLUMNS)]


def test_parts_of_several_steps() -> None:
    x, w = inputs()
    parts = [B.reshape(step(x, t, n), (n * ROWS, TERMS)) for t, n in ((0, 2), (2, 3))]
    assert shapes(fused([B.dot(part, w) for part in parts])) == [(STEPS * ROWS, COLUMNS)]


def test_each_matrix_has_a_matmul() -> None:
    x, w = inputs()
    other = B.input("v:0", F32, (TERMS, COLUMNS + 1))
    graph = fused([p for m in (w, other) for p in matmuls(range(STEPS), x, m)])
    assert sorted(shapes(graph)) == [(STEPS * ROWS, COLUMNS), (STEPS * ROWS, COLUMNS + 1)]


def test_what_waits_for_a_step() -> None:
    """The state of a step is in none of the rows: there is no cycle."""
    x, w = inputs((STEPS, ROWS, TERMS), columns=TERMS)
    state = B.input("h:0", F32, (ROWS, TERMS))
    for matmul in matmuls(range(STEPS), x, w):
        state = B.exp(B.neg(B.add(matmul, B.dot(state, w))))
    assert shapes(fused([state])).count((STEPS * ROWS, TERMS)) == 1


@pytest.mark.parametrize("order", [[0], [0, 1, 2, 3], [0, 1, 2, 3, 3]])
def test_rows_that_nobody_takes_are_not_multiplied(order: list[int]) -> None:
    assert shapes(fused(matmuls(order, *inputs()))) == [(ROWS, COLUMNS)] * len(order)


def test_rows_that_are_taken_twice() -> None:
    assert shapes(fused(matmuls([*range(STEPS), 1], *inputs()))) == [(STEPS * ROWS, COLUMNS)]


def test_what_is_not_rows() -> None:
    x, w = inputs()
    apart = [B.reshape(step(x, t, 2, 2), (2 * ROWS, TERMS)) for t in (0, 1)]
    assert len(shapes(fused([B.dot(part, w) for part in apart]))) == 2
    wide = B.input("y:0", F32, (ROWS, 2 * TERMS))
    columns = [B.slice(wide, [0, t * TERMS], [1, 1], (ROWS, TERMS)) for t in (0, 1)]
    assert len(shapes(fused([B.dot(part, w) for part in columns]))) == 2


@pytest.mark.parametrize(("terms", "columns"), [(16, COLUMNS), (TERMS, 16)])
def test_small_matmuls_are_left_to_planning(terms: int, columns: int) -> None:
    assert len(shapes(fused(matmuls(range(STEPS), *inputs((STEPS, ROWS, terms), columns=columns))))) == STEPS


def test_sizes_that_change() -> None:
    """They would be parts of a matmul of such a size, whose kernels are not known."""
    graph = region("g", matmuls(range(STEPS), *inputs((STEPS, size("s", ROWS), TERMS))))
    assert not JOIN.run(graph).modified
