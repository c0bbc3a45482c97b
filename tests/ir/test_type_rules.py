"""Type rules: what they give, and what they refuse in words."""

from __future__ import annotations

import pytest

from tf_stitch.errors import SourceLoc, TypeRuleError
from tf_stitch.ir import op_attrs as oa
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, make_node
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.types import Shape, Symbol, TensorType, broadcast_shapes

B = Builder(SourceLoc("user/node", "Op"))
K, F32, I32, BOOL = OpKind, DType.F32, DType.I32, DType.BOOL
N, M = Symbol("n"), Symbol("m")
X = B.input("x:0", F32, (2, 3))


def _scatter(rows: Node, shape: Shape = (4, 3)) -> Node:
    return B.scatter(B.scalar_like(0, X), rows, X, shape, oa.Combine.SUM)


def _attention(kind: OpKind, queries: Shape, keys: Shape) -> Node:
    q, k, v = (B.input(f"{name}:0", F32, shape) for name, shape in (("q", queries), ("k", keys), ("v", keys)))
    return make_node(kind, (q, k, v) if kind is K.ATTENTION else (q, k), oa.AttentionAttrs(1.0, False))


@pytest.mark.parametrize(("shapes", "want"), [
    ([(2, 3), (3,)], (2, 3)), ([(2, 1), (1, 3)], (2, 3)), ([(), (4,)], (4,)), ([(N, 3), (3,)], (N, 3)),
    ([(N,), (1,)], (N,)),
    ([(N,), (5,)], (5,)), ([(0,), (1,)], (0,)), ([(1, 1), ()], (1, 1))])
def test_broadcasting(shapes: list[Shape], want: Shape) -> None:
    assert broadcast_shapes(shapes) == want


def test_two_unknown_sizes_do_not_broadcast() -> None:
    with pytest.raises(TypeRuleError, match="n and m may differ"):
        broadcast_shapes([(N, 3), (M, 3)])


def test_numbers_that_do_not_broadcast() -> None:
    with pytest.raises(TypeRuleError, match="do not broadcast"):
        broadcast_shapes([(2, 3), (4,)])


@pytest.mark.parametrize(("build", "message"), [
    (lambda: B.op(K.ADD, X), "takes 2 operands, not 1"),
    (lambda: B.op(K.ADD, X, B.input("y:0", DType.F64, (2, 3))), "operand types differ"),
    (lambda: B.op(K.ADD, *(2 * [B.input("b:0", BOOL, ())])), "number"),
    (lambda: B.op(K.EXP, B.input("i:0", I32, ())), "floating"),
    (lambda: B.op(K.INVERT, X), "integer"),
    (lambda: B.op(K.LOGICAL_NOT, X), "bool is needed"),
    (lambda: B.op(K.AND, X, X), "bool or integers"),
    (lambda: B.op(K.SELECT, X, X, X), "condition of select is not bool"),
    (lambda: B.broadcast(X, (3, 2)), "does not broadcast"),
    (lambda: B.broadcast(X, (3,)), "more axes"),
    (lambda: B.reshape(X, (5,)), "cannot have the shape"),
    (lambda: B.transpose(X, (0, 0)), "does not permute"),
    (lambda: B.slice(X, [0, 0], [1, 1], (2, 4)), "leaves an axis of 3"),
    (lambda: B.slice(X, [0, 2], [1, -1], (2, 4)), "leaves an axis"),
    (lambda: B.slice(X, [0], [1], (2,)), "miss an axis"),
    (lambda: B.pad(X, X, [0, 0], [1, 1]), "not a scalar"),
    (lambda: B.pad(B.input("s:0", F32, (N,)), B.scalar_like(0, X), [1], [0]), "unknown size"),
    (lambda: B.op(K.GATHER, X, X), "integer indices"),
    (lambda: _scatter(B.input("i:0", F32, (2,))), "no rows to scatter to"),
    (lambda: _scatter(B.input("i:0", I32, (3,))), "scattered by"),
    (lambda: _scatter(B.input("i:0", I32, (2,)), (0, 3)), "there is no row"),
    (lambda: _scatter(B.input("i:0", I32, (2,)), (4, 2)), "scattered by"),
    (lambda: B.reduce(K.ANY, X, [0]), "bool is needed"),
    (lambda: make_node(K.SUM, [X], oa.ReduceAttrs((1, 0))), "axes"),
    (lambda: make_node(K.SUM, [X], oa.ReduceAttrs((2,))), "axes"),
    (lambda: make_node(K.SUM, [X]), "takes ReduceAttrs"),
    (lambda: B.cumsum(B.input("z:0", F32, ()), False, False), "scalar"),
    (lambda: B.concat([X, B.input("y:0", F32, (2, 4))], 0), "do not concatenate"),
    (lambda: _attention(K.ATTENTION, (2, 6, 5, 8), (2, 4, 7, 8)), "do not fit attention"),
    (lambda: _attention(K.ATTENTION, (2, 6, 5, 8), (2, 0, 7, 8)), "do not fit attention"),
    (lambda: _attention(K.ATTENTION, (2, 6, 5, 8), (1, 6, 7, 8)), "do not fit attention"),
    (lambda: _attention(K.ATTENTION, (2, N, 5, 8), (2, M, 7, 8)), "do not fit attention"),
    (lambda: _attention(K.ATTENTION_LOG_SUM, (2, 6, 5, 8), (2, 3, 7, 8)), "do not fit attention"),
])
def test_refusals_say_why(build: object, message: str) -> None:
    with pytest.raises(TypeRuleError, match=message):
        build()  # type: ignore[operator]


def test_a_refusal_names_the_users_node() -> None:
    with pytest.raises(TypeRuleError, match=r"user/node \(Op\)"):
        B.op(K.EXP, B.input("i:0", I32, ()))


@pytest.mark.parametrize(("build", "want"), [
    (lambda: B.concat([X, X, X], 1), "float32[2,9]"),
    (lambda: B.pad(X, B.scalar_like(0, X), [1, 0], [0, 2]), "float32[3,5]"),
    (lambda: B.op(K.GATHER, X, B.input("i:0", DType.I64, (4, N))), "float32[4,n,3]"),
    (lambda: _scatter(B.input("i:0", I32, (2,)), (N, 3)), "float32[n,3]"),
    (lambda: B.sum(X, [-1], True), "float32[2,1]"),
    (lambda: B.arg_reduce(K.ARGMAX, X, -2, DType.I64), "int64[3]"),
    (lambda: B.op(K.LESS, X, X), "bool[2,3]"),
    (lambda: B.mean(B.input("s:0", F32, (N, 4)), [0]), "float32[4]"),
    (lambda: B.iota((N, 4), 0, I32), "int32[n,4]"),
])
def test_results(build: object, want: str) -> None:
    assert str(build().type) == want  # type: ignore[operator]


def test_builder_leaves_out_what_changes_nothing() -> None:
    assert B.cast(X, F32) is X
    assert B.reshape(X, (2, 3)) is X
    assert B.broadcast(X, (2, 3)) is X
    assert B.transpose(X, (0, 1)) is X
    assert B.concat([X], 0) is X
    assert B.reduce(K.SUM, X, []) is X


def test_types() -> None:
    t = TensorType(DType.BF16, (2, N))
    assert str(t) == "bfloat16[2,n]"
    assert not t.is_static
    with pytest.raises(TypeRuleError, match="not static"):
        _ = t.dims
    assert TensorType(DType.F16, (3, 5)).nbytes == 30
    assert [d.compute for d in (DType.F16, DType.BF16, DType.F64, I32)] == [F32, F32, DType.F64, I32]
    assert all(DType.of(d.numpy) is d for d in DType)


def test_heads_may_share_keys() -> None:
    assert _attention(K.ATTENTION, (2, 6, 5, 8), (2, 3, 7, 8)).type == TensorType(F32, (2, 6, 5, 8))
    assert _attention(K.ATTENTION, (2, N, 5, 8), (2, N, 7, 8)).type == TensorType(F32, (2, N, 5, 8))
