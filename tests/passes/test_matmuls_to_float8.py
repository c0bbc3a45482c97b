"""Matmuls of dequantised float8 become matmuls of float8, and give what they gave but for rounding."""

from __future__ import annotations

import pytest

from tests.differential.runner import region
from tests.passes.kinds import same_values
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.float8_matmuls import find_float8_matmul
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.text_format import format_graph
from tf_stitch.ir.text_parser import parse_graph
from tf_stitch.passes.matmuls_to_float8 import MatmulsToFloat8

B = Builder()
E4M3, E5M2, BF16 = DType.F8_E4M3FN, DType.F8_E5M2, DType.BF16
EVERY = MatmulsToFloat8(lambda graph: {n for n in graph.nodes() if find_float8_matmul(n) is not None})


def dequantised(name: str, shape: tuple[int, ...], dtype: DType = E4M3, half: DType = BF16, kind: K = K.MUL) -> Node:
    """By a scale that is broadcast, as Keras does."""
    x = B.input(f"{name}:0", dtype, shape)
    scale = B.broadcast(B.cast(B.input(f"{name}_scale:0", DType.F32, ()), half), shape)
    return B.op(kind, B.cast(x, half), scale)


def made(*outputs: Node, rtol: float = 0.02, atol: float = 0.2) -> TensorGraph:
    """The graph after the pass; values are as before."""
    before = region("g", list(outputs))
    return same_values(before, EVERY.run(before).graph, rtol, atol)


@pytest.mark.parametrize("half", [DType.BF16, DType.F16])
@pytest.mark.parametrize("kind", [K.MUL, K.DIV])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_operands_lie_by_rows_of_terms(first: bool, second: bool, kind: K, half: DType) -> None:
    x = dequantised("x", (48, 16) if first else (16, 48), E5M2, half, kind)
    w = dequantised("w", (32, 48) if second else (48, 32), E4M3, half, kind)
    graph = made(B.dot(x, w, first, second), rtol=0.05, atol=0.5)
    kinds = [n.kind for n in graph.nodes()]
    assert kinds.count(K.FLOAT8_DOT) == 1
    assert K.DOT not in kinds
    assert kinds.count(K.TRANSPOSE) == first + (not second), "only those that lie by columns are moved"
    [dot] = [n for n in graph.nodes() if n.kind is K.FLOAT8_DOT]
    assert [o.type.dims for o in dot.operands] == [(16, 48), (32, 48), (), ()]


@pytest.mark.parametrize("moves", ["scaled first", "moved first", "between"])
def test_what_is_moved_before_or_after_it_is_scaled(moves: str) -> None:
    x = B.input("x:0", E4M3, (2, 8, 48))
    scale = B.cast(B.input("s:0", DType.F32, ()), BF16)
    if moves == "scaled first":
        half = B.reshape(B.mul(B.cast(x, BF16), B.broadcast(scale, (2, 8, 48))), (16, 48))
    elif moves == "moved first":
        half = B.mul(B.broadcast(scale, (16, 48)), B.cast(B.reshape(x, (16, 48)), BF16))
    else:
        half = B.mul(B.reshape(B.cast(x, BF16), (16, 48)), B.broadcast(B.reshape(scale, (1, 1)), (16, 48)))
    graph = made(B.dot(half, B.transpose(dequantised("w", (32, 48)), (1, 0))))
    kinds = [n.kind for n in graph.nodes()]
    assert K.DOT not in kinds
    assert K.TRANSPOSE not in kinds, "a transpose of what lies by rows of terms is undone"


def test_a_cast_alone_has_a_scale_of_one() -> None:
    x, w = B.input("x:0", E4M3, (16, 48)), B.input("w:0", E4M3, (32, 48))
    made(B.dot(B.cast(x, BF16), B.cast(w, BF16), transpose_b=True))


def refused() -> dict[str, Node]:
    x, w = dequantised("x", (16, 48)), dequantised("w", (48, 32))
    f32 = DType.F32
    many = B.broadcast(B.input("many:0", BF16, (32,)), (48, 32))
    x3 = B.cast(B.input("x3:0", E4M3, (2, 16, 48)), BF16)
    return {
        "one operand is no float8": B.dot(x, B.input("h:0", BF16, (48, 32))),
        "of float32, which is less exact": B.dot(B.cast(B.input("a:0", E4M3, (16, 48)), f32),
                                                 B.cast(B.input("b:0", E4M3, (48, 32)), f32)),
        "both of e5m2": B.dot(dequantised("y", (16, 48), E5M2), dequantised("z", (48, 32), E5M2)),
        "a scale of each column": B.dot(x, B.mul(B.cast(B.input("v:0", E4M3, (48, 32)), BF16), many)),
        "what divides": B.dot(x, B.op(K.DIV, B.broadcast(B.input("s:0", BF16, ()), (48, 32)),
                                      B.cast(B.input("u:0", E4M3, (48, 32)), BF16))),
        "several matrices": B.dot(x3, B.cast(B.input("w3:0", E4M3, (2, 48, 32)), BF16)),
        "something else after it": B.dot(x, B.exp(w)),
    }


@pytest.mark.parametrize("why", refused())
def test_others_stay(why: str) -> None:
    assert find_float8_matmul(refused()[why]) is None


def test_text() -> None:
    graph = made(B.dot(dequantised("x", (16, 48), E5M2), dequantised("w", (48, 32))), atol=0.5)
    text = format_graph(graph)
    assert "float8_dot" in text
    assert format_graph(parse_graph(text)) == text
