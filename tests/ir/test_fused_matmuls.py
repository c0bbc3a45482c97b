"""What one library call may compute, and how matrices may lie for it."""

from __future__ import annotations

from tests.ir.test_activations import gelu, relu
from tf_stitch.ir.activations import Activation
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.fused_matmuls import FusedMatmul, as_fused_matmul, fused_matmuls
from tf_stitch.ir.graph import Node, TensorGraph, users_of
from tf_stitch.ir.matrices import MatrixLayout, matrix_layout, transposed_layout
from tf_stitch.ir.op_kinds import OpKind

B, F32 = Builder(), DType.F32


def matmul(m: int = 6, n: int = 8, dtype: DType = F32) -> Node:
    return B.dot(B.input("x", dtype, (m, 5)), B.input("w", dtype, (5, n)))


def vector(n: int = 8, dtype: DType = F32) -> Node:
    return B.input("b", dtype, (n,))


def largest(dot: Node, *outputs: Node) -> FusedMatmul | None:
    graph = TensorGraph("f", [(f"o{i}", n) for i, n in enumerate(outputs)])
    found = list(fused_matmuls(dot, users_of(graph.nodes()), frozenset(outputs)))
    for call in found:
        assert as_fused_matmul(call.nodes) == call
    return found[-1] if found else None


def test_bias_addend_and_activation_in_any_order() -> None:
    dot, rest = matmul(), B.input("r", F32, (6, 8))
    for y in (B.add(B.add(dot, vector()), rest), B.add(rest, B.add(vector(), dot))):
        call = largest(dot, gelu(y))
        assert call is not None
        assert (call.bias is not None, call.addend, call.activation) == (True, rest, Activation.GELU)
    assert largest(dot, B.exp(relu(dot))).nodes[-1].kind is OpKind.MAXIMUM  # type: ignore[union-attr]


def test_reshapes_between_are_views() -> None:
    dot = matmul()
    y = relu(B.add(B.reshape(dot, (2, 3, 8)), B.reshape(vector(), (1, 8))))
    call = largest(dot, y)
    assert call is not None
    assert call.result is y
    heads = B.add(B.reshape(dot, (6, 2, 4)), B.input("b", F32, (2, 4)))
    assert largest(dot, heads).bias is heads.operands[1]  # type: ignore[union-attr]


def test_what_the_library_does_not_compute() -> None:
    dot = matmul()
    assert largest(dot, B.add(dot, B.input("b", F32, (6, 1)))) is None  # a bias of rows
    assert largest(dot, B.add(dot, B.constant([1.0] * 8, F32))) is None  # constants lie in no memory
    assert largest(dot, B.add(dot, dot)) is None
    assert largest(dot, B.add(dot, B.input("big", F32, (3, 6, 8)))) is None
    assert largest(dot, B.add(dot, vector()), B.exp(dot)) is None  # the matmul itself is needed
    assert largest(dot, dot, B.add(dot, vector())) is None
    wide = matmul(dtype=DType.F64)
    assert largest(wide, B.add(wide, vector(8, DType.F64))) is None
    assert largest(wide, B.add(wide, B.input("r", DType.F64, (6, 8)))) is not None
    batches = B.dot(B.input("x", F32, (3, 6, 5)), B.input("w", F32, (3, 5, 8)))
    assert largest(batches, B.add(batches, vector())) is None
    assert largest(batches, B.add(batches, B.input("r", F32, (3, 6, 8)))) is not None


def test_an_activation_ends_a_call() -> None:
    dot = matmul()
    call = largest(dot, B.add(relu(dot), vector()))
    assert call is not None
    assert call.bias is None


def test_transposes_that_matmuls_read_in_place() -> None:
    def layout(shape: tuple[int, ...], perm: tuple[int, ...]) -> MatrixLayout | None:
        return transposed_layout(B.transpose(B.input("x", F32, shape), perm))

    assert layout((1, 7, 4, 3), (0, 2, 1, 3)) == MatrixLayout(False, 12, 3)  # heads of one sequence
    assert layout((2, 7, 4, 3), (0, 2, 1, 3)) is None  # of two: no single step
    assert layout((7, 4, 3), (1, 2, 0)) == MatrixLayout(True, 12, 3)
    assert layout((7, 4), (1, 0)) == MatrixLayout(True, 4, 1)
    assert layout((2, 3, 7, 4), (1, 0, 2, 3)) is None
    assert layout((7, 1, 4), (1, 0, 2)) == MatrixLayout(False, 4, 1)
    assert layout((4, 1, 3), (0, 2, 1)) == MatrixLayout(True, 3, 3)
    assert layout((5, 7, 4), (2, 1, 0)) is None  # no axis of a matrix without gaps


def test_results_that_are_written_transposed() -> None:
    dot = B.dot(B.input("x", F32, (1, 4, 7, 5)), B.input("y", F32, (1, 4, 5, 3)))
    call = largest(dot, B.transpose(dot, (0, 2, 1, 3)))
    assert call is not None
    assert call.layout == MatrixLayout(False, 12, 3)
    assert largest(dot, B.transpose(dot, (0, 1, 3, 2))) is None  # columns would have gaps


def test_results_that_are_written_in_groups() -> None:
    dot = B.dot(B.input("x", F32, (8, 7, 5)), B.input("y", F32, (8, 5, 3)))
    moved = B.reshape(B.transpose(B.reshape(dot, (2, 4, 7, 3)), (0, 2, 1, 3)), (14, 12))
    assert largest(dot, moved).result is not moved  # type: ignore[union-attr]
    users = users_of(TensorGraph("f", [("o", moved)]).nodes())
    *_, call = fused_matmuls(dot, users, frozenset([moved]), strided=True)
    assert call.result is moved
    assert call.layout == MatrixLayout(False, 12, 84, 4, 3)
    assert as_fused_matmul(call.nodes, strided=True) == call
    assert as_fused_matmul(call.nodes) is None


def test_matrices_at_two_distances() -> None:
    dims, strides = (2, 3, 4, 7, 5), (840, 280, 5, 20, 1)  # [2, 3, 7, 4, 5] by heads
    assert matrix_layout(dims, strides) is None
    assert matrix_layout(dims, strides, 2, 6) == MatrixLayout(False, 20, 280, 4, 5, 6)
    assert matrix_layout(dims, (900, 280, 5, 20, 1), 2) is None  # three
    assert matrix_layout((2, 1, 3, 7, 5), (105, 9, 35, 5, 1), 2) == MatrixLayout(False, 5, 35)
    assert matrix_layout((3, 1, 1), (4, 0, 0)) == MatrixLayout(False, 1, 4), "an axis of one has any stride"
