"""Groups keep an order in which they can run."""

from __future__ import annotations

import random

import networkx as nx
import pytest

from tests.support.tiers import each_commit
from tf_stitch.errors import StitchError
from tf_stitch.planning.group_order import GroupOrder

CHAIN = [[], [0], [1], [2]]


def test_groups_stand_behind_those_they_wait_for() -> None:
    order = GroupOrder(CHAIN, [(3,), (2,), (0, 1)])
    assert order.order == [2, 1, 0]
    assert order.awaited(1) == {2}


def test_groups_that_wait_for_themselves_are_no_groups() -> None:
    with pytest.raises(StitchError, match="wait for themselves"):
        GroupOrder(CHAIN, [(0, 2), (1, 3)])


def test_a_group_does_not_take_what_others_stand_between() -> None:
    order = GroupOrder(CHAIN, [(0,), (1,), (2,), (3,)])
    assert not order.allows({0: frozenset({0, 2}), 2: frozenset()})
    assert order.allows({0: frozenset({0, 1}), 1: frozenset()})


@pytest.mark.parametrize("seed", each_commit(range(20), range(200)))
def test_says_what_the_whole_graph_says(seed: int) -> None:
    """Of any groups, whatever became of them before."""
    chance = random.Random(seed)
    count = chance.randint(4, 24)
    needs = [sorted(chance.sample(range(p), min(p, chance.randint(0, 3)))) for p in range(count)]
    order = GroupOrder(needs, [(p,) for p in range(count)])
    for _ in range(3 * count):
        into, out = chance.sample(range(count), 2)
        taken = frozenset(chance.sample(sorted(order.groups[out]), chance.randint(0, len(order.groups[out]))))
        changed = {into: order.groups[into] | taken, out: order.groups[out] - taken}
        groups = [changed.get(group, members) for group, members in enumerate(order.groups)]
        home = {p: group for group, members in enumerate(groups) for p in members}
        edges = {(home[q], home[p]) for p in range(count) for q in needs[p] if home[q] != home[p]}
        can_run = nx.is_directed_acyclic_graph(nx.DiGraph(edges))
        assert order.allows(changed) is can_run
        if can_run:
            order.change(changed)
            assert order.home == home
            rank = {group: i for i, group in enumerate(order.order)}
            assert all(rank[a] < rank[b] for a, b in edges)
