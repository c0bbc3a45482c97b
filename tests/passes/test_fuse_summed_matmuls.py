"""Sums of matmuls become one matmul, with what else reads their left matrices; values are as before."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.differential.runner import random_values, region
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.passes import fuse_summed_matmuls
from tf_stitch.passes.cse import EliminateCommonSubexpressions
from tf_stitch.passes.fuse_summed_matmuls import FuseSummedMatmuls
from tf_stitch.passes.horizontal_gemm_fusion import HorizontalGemmFusion

B, F32 = Builder(), DType.F32
ROWS, WIDTH = 12, 8
COLUMNS = (8, 6, 4)


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse_summed_matmuls, "LARGE", 64)


def left(rows: int = ROWS) -> list[Node]:
    """What kernels compute."""
    return [B.exp(B.input(f"a{i}:0", F32, (rows, n))) for i, n in enumerate(COLUMNS)]


def weights() -> list[Node]:
    return [B.input(f"w{i}:0", F32, (WIDTH, n)) for i, n in enumerate(COLUMNS)]


def summed(matrices: list[Node], right: list[Node]) -> Node:
    first, *rest = (B.dot(a, w, transpose_b=True) for a, w in zip(matrices, right, strict=True))
    for matmul in rest:
        first = B.add(first, matmul)
    return first


def fused(*outputs: Node) -> TensorGraph:
    before = region("g", list(outputs))
    after = EliminateCommonSubexpressions().run(FuseSummedMatmuls().run(before).graph).graph
    verify_graph(after, static=True)
    values = random_values(before)
    want, got = interpret(before, values), interpret(after, values)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-4, atol=1e-4)
    return after


def count(graph: TensorGraph, kind: OpKind) -> int:
    return sum(n.kind is kind for n in graph.nodes())


def test_a_sum_of_matmuls_is_one_matmul() -> None:
    graph = fused(summed(left(), weights()))
    assert (count(graph, OpKind.DOT), count(graph, OpKind.ADD), count(graph, OpKind.CONCAT)) == (1, 0, 2)


def test_matmuls_in_another_shape() -> None:
    """As Keras adds up the gradients of what query, key and value come from."""
    shape, matrices = (3, 4, WIDTH), left()
    terms = [B.reshape(B.dot(a, w, transpose_b=True), shape) for a, w in zip(matrices, weights(), strict=True)]
    graph = fused(B.add(B.add(terms[0], terms[1]), terms[2]))
    assert (count(graph, OpKind.DOT), count(graph, OpKind.ADD)) == (1, 0)


def test_gradients_of_equal_views() -> None:
    """As TensorFlow's: each of them reshapes anew, what is merged later."""
    x = B.input("x:0", F32, (3, 4, WIDTH))
    wide = [B.exp(B.input(f"a{i}:0", F32, (3, 4, n))) for i, n in enumerate(COLUMNS)]

    def flat(value: Node) -> Node:
        return B.reshape(value, (ROWS, value.type.dims[-1]))

    gradients = [B.dot(flat(x), flat(a), transpose_a=True) for a in wide]
    graph = fused(summed([flat(a) for a in wide], weights()), *gradients)
    assert count(graph, OpKind.DOT) == 2


def test_a_term_that_counts_twice() -> None:
    a, w = left()[0], weights()[0]
    matmul = B.dot(a, w, transpose_b=True)
    other = B.dot(left()[1], weights()[1], transpose_b=True)
    assert not FuseSummedMatmuls().run(region("g", [B.add(B.add(matmul, matmul), other)])).modified


def test_other_terms_stay() -> None:
    other = B.exp(B.input("r:0", F32, (ROWS, WIDTH)))
    first, *rest = (B.dot(a, w, transpose_b=True) for a, w in zip(left(), weights(), strict=True))
    total = B.add(B.add(first, other), rest[0])
    graph = fused(B.neg(B.add(total, rest[1])))
    assert (count(graph, OpKind.DOT), count(graph, OpKind.ADD)) == (1, 1)


def test_gradients_of_weights_and_biases_read_the_fused_matrix() -> None:
    matrices, x = left(), B.input("x:0", F32, (ROWS, WIDTH))
    gradients = [B.dot(x, a, transpose_a=True) for a in matrices]
    biases = [B.sum(matrices[0], [0]), B.sum(B.reshape(matrices[1], (3, 4, 2, COLUMNS[1] // 2)), [0, 1])]
    graph = fused(summed(matrices, weights()), *gradients, *biases)
    assert (count(graph, OpKind.DOT), count(graph, OpKind.SUM), count(graph, OpKind.CONCAT)) == (2, 1, 2)


def some_gradients(matrices: list[Node]) -> list[Node]:
    x = B.input("x:0", F32, (ROWS, WIDTH))
    return [B.dot(x, a, transpose_a=True) for a in matrices[:2]]


def of_different_matrices(matrices: list[Node]) -> list[Node]:
    return [B.dot(B.input(f"x{i}:0", F32, (ROWS, WIDTH)), a, transpose_a=True) for i, a in enumerate(matrices)]


@pytest.mark.parametrize("readers", [
    some_gradients, of_different_matrices, lambda matrices: [B.neg(matrices[0])],
    lambda matrices: [B.sum(matrices[0], [1])], lambda matrices: matrices[:1],
])  # fmt: skip
def test_matrices_that_others_read_stay_apart(readers: Callable[[list[Node]], list[Node]]) -> None:
    matrices = left()
    outputs = [summed(matrices, weights()), *readers(matrices)]
    before = region("g", outputs)
    assert not FuseSummedMatmuls().run(before).modified


def test_matmuls_that_others_need_stay() -> None:
    matmuls = [B.dot(a, w, transpose_b=True) for a, w in zip(left(), weights(), strict=True)]
    graph = fused(B.add(B.add(matmuls[0], matmuls[1]), matmuls[2]), B.exp(matmuls[0]))
    assert count(graph, OpKind.DOT) == 2, "the second and third are one"


def test_matmuls_of_matmuls_or_inputs_stay() -> None:
    inputs = [B.input(f"a{i}:0", F32, (ROWS, n)) for i, n in enumerate(COLUMNS)]
    assert not FuseSummedMatmuls().run(region("g", [summed(inputs, weights())])).modified


def test_weights_larger_than_what_they_are_multiplied_by_stay() -> None:
    assert not FuseSummedMatmuls().run(region("g", [summed(left(rows=WIDTH - 1), weights())])).modified
    assert FuseSummedMatmuls().run(region("g", [summed(left(rows=WIDTH), weights())])).modified


def test_sizes_that_change_stay() -> None:
    assert not FuseSummedMatmuls().run(region("g", [summed(left(size("n", ROWS)), weights())])).modified


def test_small_matrices_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse_summed_matmuls, "LARGE", 1 << 20)
    assert not FuseSummedMatmuls().run(region("g", [summed(left(), weights())])).modified


def test_a_matrix_that_comes_from_a_gradient_of_another_stays() -> None:
    """Else the fused gradient would wait for itself."""
    x = B.input("x:0", F32, (WIDTH, WIDTH))
    first = B.exp(B.input("a:0", F32, (WIDTH, WIDTH)))
    gradient = B.dot(x, first, transpose_a=True)
    second = B.exp(gradient)
    total = B.add(B.dot(first, B.input("v:0", F32, (WIDTH, WIDTH))), B.dot(second, B.input("w:0", F32, (WIDTH, WIDTH))))
    assert not FuseSummedMatmuls().run(region("g", [total, B.dot(x, second, transpose_a=True)])).modified


def test_groups_that_wait_for_each_other_stay() -> None:
    """Each group has a gradient that the other's second matrix comes from."""
    x, square = B.input("x:0", F32, (WIDTH, WIDTH)), (WIDTH, WIDTH)
    firsts = [B.exp(B.input(f"a{i}:0", F32, square)) for i in range(2)]
    gradients = [B.dot(x, a, transpose_a=True) for a in firsts]
    outputs = []
    for i, a in enumerate(firsts):
        b = B.exp(gradients[1 - i])
        outputs += [B.add(B.dot(a, B.input(f"v{i}:0", F32, square)), B.dot(b, B.input(f"w{i}:0", F32, square))),
                    B.dot(x, b, transpose_a=True)]
    graph = fused(*outputs, *gradients)
    assert count(graph, OpKind.DOT) == count(region("g", [*outputs, *gradients]), OpKind.DOT)


def test_weights_are_put_side_by_side_once() -> None:
    """Those of the matmuls that come before, and of the gradient, in whichever order."""
    rows, width = 4100, 4096
    matrices = [B.exp(B.input(f"a{n}:0", F32, (rows, n))) for n in (20, 30, 40)]
    right = [B.input(f"w{n}:0", F32, (width, n)) for n in (20, 30, 40)]
    x = B.input("x:0", F32, (rows, width))
    before = region("g", [summed(matrices[::-1], right[::-1]), *(B.exp(B.dot(x, w)) for w in right)])
    graph = FuseSummedMatmuls().run(before).graph
    fusion = HorizontalGemmFusion(processors=2, gbps=1e9, matmuls=H200.profile.matmul_kernels)
    graph = EliminateCommonSubexpressions().run(fusion.run(graph).graph).graph
    assert (count(graph, OpKind.DOT), count(graph, OpKind.CONCAT)) == (2, 2)


def wide_other() -> Node:
    first, second = (B.dot(a, w, transpose_b=True) for a, w in zip(left()[:2], weights()[:2], strict=True))
    return B.add(B.add(first, second), B.exp(B.input("o:0", F32, (3, ROWS, WIDTH))))


def one_row() -> Node:
    a, b = B.exp(B.input("a0:0", F32, (1, 40))), left()[1]
    return B.add(B.dot(a, B.input("w:0", F32, (40, WIDTH))), B.dot(b, weights()[1], transpose_b=True))


def of_other_shapes() -> Node:
    a = B.dot(B.exp(B.input("a0:0", F32, (6, 40))), B.input("v:0", F32, (40, 4)))
    b = B.dot(B.exp(B.input("a1:0", F32, (4, 40))), B.input("w:0", F32, (40, 6)))
    return B.add(B.reshape(a, (24,)), B.reshape(b, (24,)))


def rows_and_columns() -> Node:
    a = B.dot(B.exp(B.input("a0:0", F32, (8, 40))), B.input("v:0", F32, (40, 4)))
    b = B.dot(B.exp(B.input("a1:0", F32, (8, 40))), B.input("w:0", F32, (40, 4)))
    return B.add(B.reshape(a, (8, 1, 4)), B.reshape(b, (1, 8, 4)))


@pytest.mark.parametrize(("total", "matmuls"), [(wide_other, 1), (one_row, 2), (of_other_shapes, 2),
                                                 (rows_and_columns, 2)])  # fmt: skip
def test_sums_that_broadcast(total: Callable[[], Node], matmuls: int) -> None:
    assert count(fused(total()), OpKind.DOT) == matmuls


def test_a_matrix_that_is_live_out_in_another_shape_stays() -> None:
    wide = B.exp(B.input("a:0", F32, (3, 4, COLUMNS[0])))
    flat = B.reshape(wide, (ROWS, COLUMNS[0]))
    total = summed([flat, left()[1]], weights()[:2])
    for live_out in (wide, B.reshape(wide, (4, 3, COLUMNS[0]))):
        assert not FuseSummedMatmuls().run(region("g", [total, live_out])).modified


def test_the_most_matmuls_of_one_form() -> None:
    other = B.dot(B.exp(B.input("b:0", F32, (ROWS, 5))), B.input("v:0", F32, (5, WIDTH)))
    first, *rest = (B.dot(a, w, transpose_b=True) for a, w in zip(left(), weights(), strict=True))
    graph = fused(B.add(B.add(B.add(other, first), rest[0]), rest[1]))
    assert count(graph, OpKind.DOT) == 2


def test_a_live_out_sum_is_a_group_of_its_own() -> None:
    inner = summed(left()[:2], weights()[:2])
    total = B.add(inner, B.dot(left()[2], weights()[2], transpose_b=True))
    assert count(fused(total, inner), OpKind.DOT) == 2


def test_long_sums() -> None:
    total = summed(left(), weights())
    for i in range(3000):
        total = B.add(total, B.input(f"r{i}:0", F32, (ROWS, WIDTH)))
    assert FuseSummedMatmuls().run(region("g", [total])).modified
