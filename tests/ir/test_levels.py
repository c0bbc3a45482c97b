"""Levels between large matmuls: where nodes stand, and what values come from."""

from __future__ import annotations

from collections.abc import Iterable

from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.levels import MOST_SOURCES, Levels, find_levels
from tf_stitch.ir.op_kinds import OpKind

B, F32 = Builder(), DType.F32
X = B.input("x:0", F32, (64, 64))


def dense(x: Node, name: str) -> Node:
    return B.dot(x, B.input(f"{name}:0", F32, (64, 64)))


def levels(*outputs: Node, wanted: Iterable[Node] = ()) -> Levels:
    nodes = TensorGraph("g", [(str(i), n) for i, n in enumerate(outputs)]).nodes()
    return find_levels(nodes, lambda n: n.kind is OpKind.DOT, frozenset(wanted))


def test_a_level_is_a_number_of_matmuls() -> None:
    first = dense(X, "a")
    second = dense(first, "b")
    end = B.add(second, X)
    found = levels(end)
    assert [found.of[n] for n in (X, first, second, end)] == [0, 0, 1, 2]


def test_what_is_larger_than_what_it_is_made_of_waits() -> None:
    wide = B.broadcast(B.exp(B.input("bias:0", F32, (64,))), (64, 64))
    matmul = dense(X, "w")
    assert levels(B.add(matmul, wide)).of[wide] == 1


def test_what_comes_from_memory_waits_and_reductions_do_not() -> None:
    shifted = B.neg(B.exp(X))
    total = B.broadcast(B.reshape(B.sum(X, [1]), (64, 1)), (64, 64))
    end = B.add(B.add(dense(X, "w"), shifted), total)
    found = levels(end)
    assert found.of[shifted] == found.of[shifted.operands[0]] == 1
    assert found.sources[shifted] == {X}
    sums = total.operands[0].operands[0]
    assert found.of[total] == 1
    assert found.of[sums] == 0
    assert found.to_keep([sums, X]) == sums.type.nbytes, "inputs lie in memory anyway"


def test_random_numbers_are_drawn_where_they_are_wanted() -> None:
    """By their place, which every kernel knows, and a key and a counter."""
    key = B.cast(B.input("key:0", DType.I64, ()), F32)
    number = B.mul(B.cast(B.iota((64, 64), -1, DType.I64), F32), B.broadcast(key, (64, 64)))
    mask = B.op(OpKind.GREATER, number, B.broadcast(B.constant(0.5, F32), (64, 64)))
    found = levels(B.select(mask, dense(X, "w"), X))
    assert found.of[mask] == found.of[number] == 1
    assert not found.sources[mask]


def test_what_is_as_large_as_a_variable_is_read_at_once() -> None:
    decayed = B.exp(B.variable("v", F32, (64, 64)))
    assert levels(B.add(dense(X, "w"), decayed)).of[decayed] == 0


def test_a_variable_by_another_shape_is_read_where_it_is_wanted() -> None:
    weights = B.reshape(B.variable("v", F32, (64, 1, 64)), (64, 64))
    found = levels(B.add(dense(X, "w"), weights))
    assert found.of[weights] == 1
    assert found.sources[weights] == {weights.operands[0]}


def test_sums_of_two_values_that_matmuls_gave_are_kept() -> None:
    h = dense(X, "a")
    residual = B.add(h, B.add(X, dense(h, "b")))  # of the matmul's and two values more
    late = dense(residual, "c")
    found = levels(B.add(late, B.exp(residual)))
    assert found.sources[residual] == {residual}
    assert residual in found.kept


def test_values_of_many_sources_are_not_followed() -> None:
    parts = [B.reshape(B.input(f"p{i}:0", F32, (64,)), (1, 64)) for i in range(MOST_SOURCES + 1)]
    value = B.broadcast(parts[0], (64, 64))
    for part in parts[1:]:
        value = B.add(value, B.broadcast(part, (64, 64)))
    found = levels(B.add(dense(X, "w"), value))
    assert found.sources[value] == {value}
    assert found.of[value] == 0


def test_what_matmuls_read_in_another_shape_lies_in_memory() -> None:
    hidden = B.exp(X)
    matmul = B.dot(B.reshape(hidden, (32, 128)), B.input("w:0", F32, (128, 64)))
    found = levels(matmul, B.add(dense(X, "v"), B.neg(hidden)))
    assert hidden in found.kept
    assert found.sources[hidden] == {hidden}


def test_wanted_values_stay() -> None:
    result = B.exp(X)
    end = B.add(dense(X, "w"), result)
    assert levels(end).of[result] == 1
    assert levels(end, wanted=[result]).of[result] == 0
