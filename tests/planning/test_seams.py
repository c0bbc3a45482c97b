"""Seams between regions: nodes that may run before one or behind it run where fewer bytes cross."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planning.test_remote_stitching import CPU, GPU, MIB, PROFILES
from tf_stitch.planning import regions as regions_module
from tf_stitch.planning.acyclic_contraction import AcyclicContraction
from tf_stitch.planning.regions import find_regions
from tf_stitch.planning.remote_stitching import RegionNode
from tf_stitch.planning.seams import Seams


def node(name: str, *inputs: str, place: tuple[object, ...] | None = GPU, size: int = MIB) -> RegionNode:
    return RegionNode(name, inputs, (), place, 1, nbytes=size, result_bytes=size)


def activation(derivative: int, place: tuple[object, ...] = GPU) -> list[RegionNode]:
    """A bias and an activation before a matmul; the derivative is for the backward pass alone. Its first node is what
    the forward pass computes, too."""
    return [node("x", place=None), node("biased", "x", place=place), node("inner", "biased", place=place),
            node("active", "inner", place=place), node("slope", "inner", place=place, size=derivative),
            node("derivative", "slope", "biased", place=place, size=derivative), node("matmul", "active", place=None),
            node("scaled", "derivative", "matmul", "active", place=place)]  # fmt: skip


@pytest.mark.parametrize("place", [CPU, GPU])
def test_a_derivative_is_computed_where_it_is_used(place: tuple[object, ...]) -> None:
    """Growing along edges puts it into the forward region: 2 MiB are written, and read again. Made behind the seam of
    what the forward pass left (biased is written in its place, and read) it costs as much at the same size, and less
    the larger it is."""
    groups = [["biased", "inner", "active", "slope", "derivative"], ["scaled"]]
    assert find_regions(activation(MIB, place), 1, PROFILES) == groups
    assert find_regions(activation(8 * MIB, place), 1, PROFILES) == [
        ["biased", "inner", "active"], ["slope", "derivative", "scaled"]]  # fmt: skip


def test_it_costs_less_by_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = activation(8 * MIB)
    better = partition(nodes, find_regions(nodes, 1, PROFILES))
    monkeypatch.setattr(Seams, "sides", lambda *_: {})
    greedy = partition(nodes, find_regions(nodes, 1, PROFILES))
    seams = Seams(nodes)
    microseconds = seams.cost_us(greedy, PROFILES) - seams.cost_us(better, PROFILES)
    crossing = 16 - 4  # MiB: the derivative written and read, against biased and inner
    assert microseconds == pytest.approx(crossing * MIB / (PROFILES["GPU"].bandwidth[-1][1] * 1e3))


def test_small_ones_stay_where_their_operands_are() -> None:
    """A sum of what the forward region has in its registers."""
    nodes = [node("x", place=None), node("a", "x"), node("sum", "a", size=4096), node("matmul", "a", place=None),
             node("b", "sum", "matmul")]  # fmt: skip
    assert find_regions(nodes, 1, PROFILES) == [["a", "sum"], ["b"]]


def test_who_is_needed_between_stays() -> None:
    nodes = [*activation(8 * MIB)[:-1], node("other", "derivative", place=None), node("scaled", "derivative", "other")]
    assert find_regions(nodes, 1, PROFILES)[0] == ["biased", "inner", "active", "slope", "derivative"]


def test_unknown_sizes_move_nothing() -> None:
    nodes = [RegionNode(n.name, n.inputs, n.controls, n.place, 1) for n in activation(8 * MIB)]
    assert find_regions(nodes, 1, PROFILES)[0] == ["biased", "inner", "active", "slope", "derivative"]


def partition(nodes: list[RegionNode], regions: list[list[str]]) -> AcyclicContraction[str]:
    groups = AcyclicContraction([n.name for n in nodes], [(p, n.name) for n in nodes for p in (*n.inputs, *n.controls)])
    for region in regions:
        for a, b in itertools.product(region, repeat=2):
            groups.merge(a, b)
    return groups


def two_regions(rng: random.Random) -> list[RegionNode]:
    """Nodes before a matmul, nodes behind it that read them, and now and then a reader between."""
    def size() -> int:
        return rng.choice((64, MIB, 3 * MIB))

    def some(names: list[str], most: int) -> list[str]:
        return rng.sample(names, min(len(names), rng.randint(1, most)))

    sources, front, back = ["x", "y"], list[str](), list[str]()
    nodes = [node(name, place=None, size=size()) for name in sources]
    for i in range(rng.randint(2, 9)):
        nodes.append(node(f"a{i}", *some([*sources, *front], 3), size=size()))
        front.append(f"a{i}")
    nodes.append(node("matmul", *some(front[:3], 2), place=None, size=size()))
    if rng.random() < 0.3:
        nodes.append(node("aside", rng.choice(front), place=None, size=size()))
    for i in range(rng.randint(1, 3)):
        after = some(back, 1) if back else ["matmul"]
        nodes.append(node(f"b{i}", *after, *some([*front, *sources], 3), size=size()))
        back.append(f"b{i}")
    return nodes


@given(st.randoms(use_true_random=False))
def test_the_cut_is_the_best_of_all_moves(rng: random.Random) -> None:
    """Against trying every set of nodes that may move behind a seam."""
    nodes = two_regions(rng)
    edges = [(p, n.name) for n in nodes for p in (*n.inputs, *n.controls)]
    groups = AcyclicContraction([n.name for n in nodes], edges)
    place = {n.name: n.place for n in nodes}
    left = regions_module._grow(groups, [(a, b) for a, b in edges if place[a] is not None and place[a] == place[b]])
    seams = Seams(nodes)
    for before, behind in {(groups.find(a), groups.find(b)) for a, b in left}:
        one, other = frozenset(groups.members(before)), frozenset(groups.members(behind))
        movable = sorted(seams._movable(one, other))
        found, saved = seams._moved(one, other)
        legal = [set(chosen) for k in range(len(movable) + 1) for chosen in itertools.combinations(movable, k)
                 if all(r in chosen or r in other for c in chosen for r in seams._readers[c])]  # fmt: skip
        by_name = {n.name: n for n in nodes}
        cost = {frozenset(m): crossing(by_name, one - m, other | m) for m in legal}
        assert cost[frozenset(found)] == min(cost.values()) == cost[frozenset()] - saved
        assert len(found) == min(len(m) for m in legal if cost[frozenset(m)] == cost[frozenset(found)])


def crossing(nodes: Mapping[str, RegionNode], *regions: frozenset[str]) -> int:
    """Bytes that two regions write for others, and read of others."""
    total = 0
    for region in regions:
        written = {p for n in nodes.values() if n.name not in region for p in n.inputs if p in region}
        read = {p for m in region for p in nodes[m].inputs if p not in region}
        total += sum(nodes[p].result_bytes for p in written) + sum(nodes[p].result_bytes for p in read)
    return total
