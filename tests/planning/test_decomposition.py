"""Parts of a region: levels between large matmuls, connected parts, windows."""

from __future__ import annotations

import random

import pytest

from tests.differential.runner import region
from tests.planning.dags import B, MadeUpTimes, random_nodes
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.ir.levels import find_levels
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.planning.decomposition import WINDOW, decompose
from tf_stitch.planning.dependence import dependencies, update_edges
from tf_stitch.planning.free_nodes import free_nodes, plannable
from tf_stitch.planning.matmul_sizes import is_large_matmul
from tf_stitch.planning.planner import plan_region

F32 = DType.F32


def dense(x: Node, name: str) -> Node:
    return B.dot(x, B.input(name, F32, (64, 64)))


def parts_of(graph: TensorGraph) -> list[list[Node]]:
    nodes = graph.nodes()
    free = free_nodes(nodes)
    work = plannable(graph, free)
    parts = decompose(work, dependencies(nodes, work), free, find_levels(nodes, is_large_matmul), LIBRARIES)
    return [[work[p] for p in part] for part in parts]


def test_no_part_spans_a_large_matmul() -> None:
    x = B.exp(B.input("x", F32, (64, 64)))
    y = B.neg(dense(x, "w"))
    graph = region("residual", [B.exp(B.add(B.neg(dense(y, "v")), x))])
    kinds = [[n.kind.value for n in part] for part in parts_of(graph)]
    assert kinds == [["exp"], ["dot"], ["neg"], ["dot"], ["neg", "add", "exp"]]


def test_nodes_wait_through_those_that_have_no_kernel() -> None:
    first = B.exp(B.input("x", F32, (64, 64)))
    graph = region("g", [B.neg(B.reshape(B.reshape(first, (4096,)), (32, 128)))])
    work = [n for n in graph.nodes() if n.kind in (OpKind.EXP, OpKind.NEG)]
    assert dependencies(graph.nodes(), work) == [(), (0,)]


@pytest.mark.parametrize("seed", range(4))
def test_windows_are_short_and_in_order(seed: int) -> None:
    nodes = random_nodes(random.Random(seed), 700)
    graph = region("long", [n for n in nodes if not any(n in m.operands for m in nodes)])
    work = plannable(graph, free_nodes(graph.nodes()))
    needs = dependencies(graph.nodes(), work)
    parts = decompose(work, needs, frozenset(), find_levels(graph.nodes(), is_large_matmul), LIBRARIES)
    assert sorted(p for part in parts for p in part) == list(range(len(work)))
    assert max(map(len, parts)) <= WINDOW
    home = {p: i for i, part in enumerate(parts) for p in part}
    assert all(home[b] <= home[p] for p, before in enumerate(needs) for b in before), "parts can run in this order"


def test_equal_layers_are_planned_once() -> None:
    class Counting(MadeUpTimes):
        seen = 0

        def estimate(self, pattern: object) -> float | None:
            Counting.seen += 1
            return super().estimate(pattern)  # type: ignore[arg-type]

    counts = []
    for layers in (6, 12):
        x = B.input("x", F32, (64, 64))
        for i in range(layers):
            x = B.exp(B.neg(B.exp(dense(x, f"w{i}"))))
        Counting.seen = 0
        plan_region(region("stack", [x]), Counting(), LIBRARIES)
        counts.append(Counting.seen)
    assert counts[0] == counts[1]


def test_readers_of_a_variable_come_before_its_update() -> None:
    v = B.variable("v", F32, (64,))
    graph = region("update", [B.exp(v)], {"v": B.add(v, B.input("g", F32, (64,)))})
    nodes = graph.nodes()
    work = plannable(graph, frozenset())
    assert [(work[a].kind.value, work[b].kind.value) for a, b in update_edges(graph, nodes, work)] == [("exp", "add")]
