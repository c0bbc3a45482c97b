"""Matmuls of few rows become sums where these are faster, with the value that they had."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.differential.runner import random_values, region
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_attrs import ReduceAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.passes.lower_gemv_to_reduction import MOST_ROWS, LowerGemvToReduction, as_sum

B, F32 = Builder(), DType.F32
WHAT_CAN_BE = LowerGemvToReduction(lambda graph: [n for n in graph.nodes() if n.kind is OpKind.DOT and as_sum(n)])


def matmul(x: Sequence[int], y: Sequence[int], transpose_a: bool = False, transpose_b: bool = False,
            dtype: DType = F32) -> Node:
    left, right = (B.input(key, dtype, tuple(dims)) for key, dims in (("x", x), ("y", y)))
    return B.dot(left, right, transpose_a, transpose_b)


def summed(node: Node) -> TensorGraph:
    graph = region("g", [node])
    result = WHAT_CAN_BE.run(graph)
    verify_graph(result.graph, static=True)
    assert result.modified is not any(n.kind is OpKind.DOT for n in result.graph.nodes())
    assert [n.type for _, n in result.graph.outputs] == [n.type for _, n in graph.outputs]
    return result.graph


def reductions(graph: TensorGraph) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Of each reduction what it reduces, and along which axes."""
    return [(n.operands[0].type.dims, n.attrs.axes) for n in graph.nodes() if isinstance(n.attrs, ReduceAttrs)]


ROW, COLUMN = (1, 20), (20, 1)
CASES = [
    (ROW, (20, 30), False, False), (ROW, (30, 20), False, True), (COLUMN, (20, 30), True, False),
    (COLUMN, (30, 20), True, True), ((40, 20), COLUMN, False, False), ((40, 20), ROW, False, True),
    ((20, 40), COLUMN, True, False), ((20, 40), ROW, True, True), ((3, 20), (20, 30), False, False),
    ((3, 20), (30, 20), False, True), ((20, 3), (20, 30), True, False), ((20, 3), (30, 20), True, True),
    ((2, 5, 1, 20), (2, 5, 20, 30), False, False), ((2, 5, 2, 20), (2, 5, 30, 20), False, True),
    ((2, 40, 20), (2, 20, 1), False, False)]  # fmt: skip


@pytest.mark.parametrize("dtype", [F32, DType.F64, DType.F16, DType.BF16])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_value_stays(case: tuple[tuple[int, ...], tuple[int, ...], bool, bool], dtype: DType) -> None:
    before = region("g", [matmul(*case, dtype)])
    after = summed(matmul(*case, dtype))
    assert len(reductions(after)) == 1
    values = random_values(before)
    exact = interpret(region("g", [matmul(*case, DType.F64)]),
                      {key: value.astype(np.float64) for key, value in values.items()})["o0"]
    found = interpret(after, values)["o0"]
    assert found.dtype == dtype.numpy
    half = {F32: 2**-22, DType.F64: 2**-50, DType.F16: 2**-11, DType.BF16: 2**-8}[dtype]
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=half, atol=half * 8)  # rounded once


def test_the_matrix_is_reduced_as_it_lies() -> None:
    """Along its columns, neighbouring threads read neighbours; along its rows, one row is read by neighbours."""
    assert reductions(summed(matmul(ROW, (20, 30)))) == [((20, 30), (0,))]
    assert reductions(summed(matmul(ROW, (30, 20), False, True))) == [((30, 20), (1,))]


def test_what_is_not_chosen_stays() -> None:
    stays, other = matmul(ROW, (20, 30)), B.dot(B.input("z", F32, ROW), B.input("y", F32, (20, 30)))
    by = LowerGemvToReduction(lambda graph: [other])
    outputs = [node for _, node in by.run(region("g", [stays, other])).graph.outputs]
    assert outputs[0] is stays
    assert outputs[1].kind is not OpKind.DOT


def test_many_rows_stay() -> None:
    assert as_sum(matmul((MOST_ROWS + 1, 20), (20, 30))) is None
    assert as_sum(matmul((MOST_ROWS, 20), (20, 30))) is not None


def test_the_matrix_is_not_reshaped() -> None:
    """Kernels that share a reshape of it would have it copied."""
    for x in (ROW, (3, 20)):
        nodes = summed(matmul(x, (20, 30))).nodes()
        assert all(n.operands[0].type.numel < 20 * 30 for n in nodes if n.kind is OpKind.RESHAPE)


def test_sizes_that_change() -> None:
    """One row is a sum for every size; more rows, and rows whose number changes, are matmuls for every size."""
    n = size("n", 37)
    assert reductions(summed(matmul(ROW, (20, n)))) == [((20, n), (0,))]
    assert reductions(summed(matmul((1, n), (n, 30)))) == [((n, 30), (0,))]
    assert reductions(summed(matmul((n, 20), COLUMN))) == [((n, 20), (1,))]
    for rows in (2, size("m", 1)):
        assert as_sum(matmul((rows, 20), (20, n))) is None
