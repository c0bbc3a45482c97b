"""Small matmuls of many terms are matmuls of parts and a sum, with the values that they had."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential.runner import random_values, region
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.ir.types import Dim
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.passes.split_terms import SplitTerms

B, SPLIT = Builder(), SplitTerms(least_terms=8192, most_tiles=2, tile=128, parts=64)


def gradient(terms: Dim, rows: int, columns: int, dtype: DType = DType.F32) -> TensorGraph:
    return region("g", [B.dot(B.input("x:0", dtype, (terms, rows)), B.input("y:0", dtype, (terms, columns)),
                              transpose_a=True)])


def parts(graph: TensorGraph) -> list[tuple[Dim, ...]]:
    """Shapes of matmuls after the pass."""
    after = SPLIT.run(graph).graph
    verify_graph(after)
    return [n.type.shape for n in after.nodes() if n.kind is OpKind.DOT]


@pytest.mark.parametrize(("terms", "rows", "columns", "found"), [
    (25600, 50, 50, 64), (8192, 3, 5, 64), (80000, 128, 16, 64), (9000, 7, 7, 60), (32 * 257, 128, 256, 32)])
def test_the_values_are_the_same(terms: int, rows: int, columns: int, found: int) -> None:
    graph = gradient(terms, rows, columns)
    assert parts(graph) == [(found, rows, columns)]
    values = random_values(graph)
    x, y = (values[key].astype(np.float64) for key in ("x:0", "y:0"))
    got = interpret(SPLIT.run(graph).graph, values)["o0"]
    np.testing.assert_allclose(got, x.T @ y, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("graph", [
    gradient(8000, 50, 50), gradient(25600, 256, 256), gradient(25601, 50, 50), gradient(25600, 50, 50, DType.BF16),
    gradient(25600, 50, 50, DType.F64), gradient(size("n", 25600), 50, 50)], ids=["short", "large", "prime", "half",
                                                                                 "double", "any"])
def test_what_stays(graph: TensorGraph) -> None:
    assert not SPLIT.run(graph).modified


@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (False, True), (True, True)])
def test_terms_that_do_not_lie_one_after_the_other(transpose_a: bool, transpose_b: bool) -> None:
    terms, few = 25600, 8
    x = B.input("x:0", DType.F32, (terms, few) if transpose_a else (few, terms))
    y = B.input("y:0", DType.F32, (few, terms) if transpose_b else (terms, few))
    assert not SPLIT.run(region("g", [B.dot(x, y, transpose_a, transpose_b)])).modified


def test_batches_stay() -> None:
    x, y = (B.input(name, DType.F32, (2, 25600, 8)) for name in ("x:0", "y:0"))
    assert not SPLIT.run(region("g", [B.dot(x, y, transpose_a=True)])).modified
