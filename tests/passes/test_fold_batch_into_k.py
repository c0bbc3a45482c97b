"""Sums over a batch of matmuls become one matmul, with the values that they had."""

from __future__ import annotations

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
from tf_stitch.passes.fold_batch_into_k import FoldBatchIntoK

B, F32 = Builder(), DType.F32
ROWS, TERMS, COLUMNS = 5, 3, 4


def matmul(batch: Shape) -> Node:
    return B.dot(B.input("x:0", F32, (*batch, ROWS, TERMS)), B.input("y:0", F32, (*batch, ROWS, COLUMNS)),
                 transpose_a=True)  # fmt: skip


def after(output: Node) -> TensorGraph:
    before = region("g", [output])
    graph = FoldBatchIntoK().run(before).graph
    verify_graph(graph, static=True)
    values = random_values(before)
    want, got = interpret(before, values), interpret(graph, values)
    np.testing.assert_allclose(got["o0"], want["o0"], rtol=1e-5, atol=1e-5)
    return graph


def matmuls(graph: TensorGraph) -> list[int]:
    return [n.type.rank for n in graph.nodes() if n.kind is OpKind.DOT]


@pytest.mark.parametrize("batch", [(6,), (2, 3), (size("n", 6),)])
def test_one_matmul(batch: Shape) -> None:
    graph = after(B.exp(B.sum(matmul(batch), range(len(batch)))))
    assert matmuls(graph) == [2]
    assert not any(n.kind is OpKind.SUM for n in graph.nodes())


def test_sums_over_a_part_of_the_batch_stay() -> None:
    assert matmuls(after(B.sum(matmul((2, 3)), [0]))) == [4]


def test_sums_of_rows_stay() -> None:
    assert matmuls(after(B.sum(matmul((2,)), [1]))) == [3]


@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (True, True), (False, True)])
def test_matmuls_whose_terms_do_not_lie_one_after_the_other_stay(transpose_a: bool, transpose_b: bool) -> None:
    x = B.input("x:0", F32, (2, *((ROWS, TERMS) if transpose_a else (TERMS, ROWS))))
    y = B.input("y:0", F32, (2, *((COLUMNS, ROWS) if transpose_b else (ROWS, COLUMNS))))
    assert matmuls(after(B.sum(B.dot(x, y, transpose_a, transpose_b), [0]))) == [3]


def test_a_matrix_that_all_of_the_batch_share() -> None:
    x = B.broadcast(B.input("x:0", F32, (ROWS, TERMS)), (6, ROWS, TERMS))
    shared = B.dot(x, B.input("y:0", F32, (6, ROWS, COLUMNS)), transpose_a=True)
    assert matmuls(after(B.sum(shared, [0]))) == [2]


def test_matmuls_that_others_need_stay() -> None:
    terms = matmul((6,))
    assert not FoldBatchIntoK().run(region("g", [B.sum(terms, [0]), B.exp(terms)])).modified
    terms = matmul((6,))
    assert not FoldBatchIntoK().run(region("g", [B.sum(terms, [0]), terms])).modified


def test_matrices_that_a_library_reads_in_another_order_stay() -> None:
    """Rows of a batch that is the second axis in memory: one matmul would take a copy."""
    x = B.transpose(B.exp(B.input("x:0", F32, (ROWS, 6, TERMS))), (1, 0, 2))
    terms = B.dot(x, B.input("y:0", F32, (6, ROWS, COLUMNS)), transpose_a=True)
    assert matmuls(after(B.sum(terms, [0]))) == [3]
