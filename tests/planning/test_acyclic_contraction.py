"""AcyclicContraction against networkx."""

from __future__ import annotations

import random

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from tf_stitch.planning.acyclic_contraction import AcyclicContraction


def random_dag(rng: random.Random) -> tuple[list[int], list[tuple[int, int]]]:
    n = rng.randint(1, 14)
    order = rng.sample(range(n), n)
    edges = [(order[i], order[j]) for i in range(n) for j in range(i + 1, n) if rng.random() < rng.choice([0.1, 0.3])]
    return order, edges


def contracted(edges: list[tuple[int, int]], group_of: dict[int, int]) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(group_of.values())
    graph.add_edges_from((group_of[a], group_of[b]) for a, b in edges if group_of[a] != group_of[b])
    return graph


@given(st.randoms(use_true_random=False))
def test_merges_exactly_what_keeps_the_graph_acyclic(rng: random.Random) -> None:
    for _ in range(5):
        items, edges = random_dag(rng)
        groups = AcyclicContraction(items, edges)
        group_of = {i: i for i in items}
        for _ in range(3 * len(items)):
            a, b = rng.choice(items), rng.choice(items)
            merged = {i: group_of[a] if g == group_of[b] else g for i, g in group_of.items()}
            legal = nx.is_directed_acyclic_graph(contracted(edges, merged))
            assert groups.merge(a, b) == legal
            group_of = merged if legal else group_of
            assert sorted(groups.members(a)) == sorted(i for i in items if group_of[i] == group_of[a])
        order = groups.groups()
        assert sorted(i for group in order for i in group) == sorted(items)
        position = {i: n for n, group in enumerate(order) for i in group}
        assert all(position[a] <= position[b] for a, b in edges), "groups come in topological order"


def test_a_detour_through_another_group_forbids_the_merge() -> None:
    groups = AcyclicContraction("abc", [("a", "b"), ("b", "c"), ("a", "c")])
    assert not groups.merge("a", "c")
    assert groups.merge("a", "b")
    assert groups.merge("a", "c")
    assert groups.groups() == [["a", "b", "c"]]
