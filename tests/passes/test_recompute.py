"""Values of earlier levels are computed again: the same values, fewer bytes between levels."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.differential.runner import random_values, region
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.interpreter import interpret
from tf_stitch.ir.levels import find_levels
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import size
from tf_stitch.ir.verifier import verify_graph
from tf_stitch.passes import recompute
from tf_stitch.passes.recompute import Recompute

B, F32 = Builder(), DType.F32
ROWS, COLS = 16, 8


def is_matmul(node: Node) -> bool:
    return node.kind is OpKind.DOT


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "LARGE", 256)


def dense(x: Node, name: str) -> Node:
    return B.dot(x, B.input(f"{name}:0", F32, (COLS, COLS)))


def recomputed(*outputs: Node, updates: dict[str, Node] | None = None) -> tuple[TensorGraph, bool]:
    """The graph after the pass; values are as before."""
    before = region("g", list(outputs), updates or {})
    result = Recompute(is_matmul, H200.profile.sizes.cycles_per_byte).run(before)
    verify_graph(result.graph, static=True)
    values = random_values(before)
    want, got = interpret(before, values), interpret(result.graph, values)
    for key, value in want.items():
        np.testing.assert_array_equal(got[key], value)
    return result.graph, result.modified


def crossing(graph: TensorGraph) -> list[str]:
    """Kinds of values, matmuls and sources left out, that a later level needs."""
    nodes = graph.nodes()
    levels = find_levels(nodes, is_matmul)
    found = {o for n in nodes for o in n.operands if levels.of[o] < levels.of[n]}
    return sorted(n.kind.value for n in found if n.operands and not is_matmul(n))


def x() -> Node:
    return B.input("x:0", F32, (ROWS, COLS))


def test_gradient_of_an_activation_starts_from_its_argument() -> None:
    argument = dense(x(), "a")
    erf = B.op(OpKind.ERF, argument)
    active = B.mul(argument, erf)
    gradient = B.mul(dense(dense(active, "b"), "c"), B.add(erf, B.exp(argument)))
    assert crossing(region("g", [gradient])) == ["erf"]
    graph, modified = recomputed(gradient)
    assert modified
    assert crossing(graph) == []
    assert sum(n.kind is OpKind.ERF for n in graph.nodes()) == 2
    assert sum(n.kind is OpKind.EXP for n in graph.nodes()) == 1, "it had late users alone: it waits"


def test_gradient_of_a_normalization_keeps_the_means_alone() -> None:
    value = dense(x(), "a")
    mean = B.broadcast(B.sum(value, [1], keepdims=True), (ROWS, COLS))
    centred = B.sub(value, mean)
    gradient = B.mul(dense(B.exp(centred), "b"), centred)
    graph, modified = recomputed(gradient)
    assert modified
    assert set(crossing(graph)) <= {"sum", "reshape"}


def test_values_that_memory_holds_anyway_are_not_computed_again() -> None:
    active = B.exp(dense(x(), "a"))  # a matmul reads it
    assert not recomputed(B.mul(dense(active, "b"), active))[1]
    wanted = B.exp(dense(x(), "a"))
    assert not recomputed(B.mul(dense(B.neg(wanted), "b"), wanted), wanted)[1]


def test_sums_of_two_large_values_are_not_computed_again() -> None:
    start = x()
    residual = B.add(dense(start, "a"), start)
    assert not recomputed(B.mul(dense(B.exp(residual), "b"), residual))[1]


def test_what_costs_more_than_its_bytes_is_not_computed_again() -> None:
    value = dense(x(), "a")
    power = value
    for _ in range(4):
        power = B.op(OpKind.ERFC, power)
    assert not recomputed(B.mul(dense(B.neg(power), "b"), power))[1]


def test_small_values_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "LARGE", 1 << 20)
    erf = B.op(OpKind.ERF, dense(x(), "a"))
    assert not recomputed(B.mul(dense(B.neg(erf), "b"), erf))[1]


def test_sizes_that_change_count_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "LARGE", 1 << 20)
    argument = dense(B.input("x:0", F32, (size("n", ROWS), COLS)), "a")
    erf = B.op(OpKind.ERF, argument)
    assert recomputed(B.mul(dense(B.mul(argument, erf), "b"), erf))[1]


def test_graphs_without_matmuls_stay() -> None:
    graph = region("g", [B.exp(x())])
    assert Recompute(is_matmul, H200.profile.sizes.cycles_per_byte).run(graph).graph is graph


def test_values_are_kept_in_random_graphs() -> None:
    changed = [random_graph_is_changed(seed) for seed in range(24)]
    assert 8 < sum(changed) < 24


def random_graph_is_changed(seed: int) -> bool:
    """Whether the pass changes one; its values it keeps."""
    chance = random.Random(seed)
    values = [x(), B.input("y:0", F32, (ROWS, COLS))]
    for step in range(40):
        a, b = chance.choice(values), chance.choice(values[-6:])
        kind = chance.choice(["mul", "sub", "tanh", "largest", "dense"])
        if kind in ("mul", "sub"):
            values.append(getattr(B, kind)(a, b))
        elif kind == "tanh":
            values.append(B.op(OpKind.TANH, a))
        elif kind == "dense":
            values.append(B.op(OpKind.TANH, dense(b, f"w{step}")))
        else:
            values.append(B.broadcast(B.reduce(OpKind.MAX, a, [1], keepdims=True), (ROWS, COLS)))
    return recomputed(*chance.sample(values[-10:], 3))[1]


def test_what_a_value_takes_twice_costs_once() -> None:
    argument = dense(x(), "a")
    sigmoid = value = B.op(OpKind.SIGMOID, argument)
    for _ in range(3):
        value = B.mul(sigmoid, B.sub(argument, value))
    assert recomputed(B.mul(dense(B.neg(value), "b"), value))[1]


def test_long_chains() -> None:
    value = dense(x(), "a")
    for _ in range(3000):
        value = B.neg(value)
    assert not recomputed(B.mul(dense(B.exp(value), "b"), value))[1]
