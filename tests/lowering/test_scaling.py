"""Which nodes of a kernel round as TensorFlow does because of a float8."""

from __future__ import annotations

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.lowering.scaling import rounded_for_float8
from tf_stitch.planning.pattern import make_pattern

B = Builder()
X, BIAS, SCALE = (B.input(key, DType.F32, shape) for key, shape in (("x", (4, 8)), ("bias", (8,)), ("scale", ())))
BF16, F8 = DType.BF16, DType.F8_E4M3FN
LARGEST = B.constant(448, BF16)


def rounded(outside: tuple[Node, ...], *results: Node) -> frozenset[Node]:
    """Of a kernel that computes `results` but for what lies outside."""
    graph = TensorGraph("g", [(f"o{i}", node) for i, node in enumerate(results)])
    users: dict[Node, list[Node]] = {}
    for node in graph.nodes():
        for operand in node.operands:
            users.setdefault(operand, []).append(node)
    inside = [n for n in graph.nodes() if n.kind not in (OpKind.INPUT, OpKind.CONSTANT) and n not in outside]
    return rounded_for_float8(make_pattern(inside, users, frozenset(results), frozenset()))


def test_a_quantise_rounds_the_number_the_scale_and_what_they_are_cast_from() -> None:
    x, bias, scale = (B.cast(v, BF16) for v in (X, BIAS, SCALE))
    added = B.add(x, bias)
    scaled = B.div(B.maximum(added, B.constant(0, BF16)), scale)
    quantised = B.cast(B.reshape(B.minimum(scaled, LARGEST), (32,)), F8)
    assert rounded((), quantised) == {x, bias, scale, scaled}  # the sum is computed in float32, and rounded once


def test_a_dequantise_rounds_the_scale() -> None:
    scale = B.cast(SCALE, BF16)
    stored = B.input("q", F8, (4, 8))
    multiplied = B.mul(B.broadcast(B.cast(stored, BF16), (2, 4, 8)), scale)
    assert rounded((), multiplied) == {multiplied, scale}


def test_what_another_kernel_stores_is_not_looked_at() -> None:
    x, scale = B.cast(X, BF16), B.cast(SCALE, BF16)
    scaled = B.div(x, scale)
    quantised = B.cast(scaled, F8)
    assert rounded((scaled, x, scale), quantised) == frozenset()
    assert rounded((x,), quantised) == {scaled, scale}


def test_float32_and_kernels_without_float8_are_as_they_were() -> None:
    assert rounded((), B.cast(B.div(X, SCALE), F8)) == frozenset()
    assert rounded((), B.div(B.cast(X, BF16), B.cast(SCALE, BF16))) == frozenset()
    assert rounded((), B.cast(B.cast(B.input("q", F8, (4,)), DType.F32), BF16)) == frozenset()


def test_a_number_that_is_scaled_and_not_scaled_is_looked_at_both_ways() -> None:
    """The one chooses between a multiple and a quotient of it."""
    x, scale = B.cast(X, BF16), B.cast(SCALE, BF16)
    multiplied = B.mul(x, x)
    quantised = B.cast(B.maximum(multiplied, B.div(multiplied, scale)), F8)
    quotient = next(n for n in TensorGraph("g", [("o", quantised)]).nodes() if n.kind is OpKind.DIV)
    assert rounded((), quantised) == {x, scale, multiplied, quotient}
