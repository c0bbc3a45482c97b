"""Regions that do not depend on each other: merged while it pays, stays acyclic and needs little more memory."""

from __future__ import annotations

import random

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_stitch.device import spec
from tf_stitch.planning.regions import find_regions
from tf_stitch.planning.remote_stitching import PEAK, SLACK_BYTES, LiveBytes, RegionNode

CPU, GPU = ("/device:CPU:0", ()), ("/device:GPU:0", ())
MIB = 1 << 20
PROFILES = {"CPU": spec.CPU.profile, "GPU": spec.H200.profile}


def backward(layers: int, gradient: int, activation: int = 0, place: tuple[object, ...] = GPU) -> list[RegionNode]:
    """A matmul for each layer, and an update as soon as its gradient is there; activations are made before and each
    freed by its layer."""
    nodes = [RegionNode("loss", (), (), None, 1)]
    nodes += [RegionNode(f"activation{i}", ("loss",), (), None, 1, nbytes=activation) for i in range(layers)]
    for i in range(layers):
        before = f"gradient{i - 1}" if i else "loss"
        nodes.append(RegionNode(f"gradient{i}", (before, f"activation{i}"), (), None, 1, nbytes=gradient))
        nodes.append(RegionNode(f"scaled{i}", (f"gradient{i}",), (), place, 1, nbytes=gradient))
        nodes.append(RegionNode(f"update{i}", (f"scaled{i}",), (), place, 1, True))
    return nodes


@pytest.mark.parametrize("place", [CPU, GPU])
def test_small_updates_become_one_region(place: tuple[object, ...]) -> None:
    regions = find_regions(backward(20, 4096, place=place), 1, PROFILES)
    assert [len(r) for r in regions] == [40]


def test_without_remote_stitching_they_stay_apart() -> None:
    assert len(find_regions(backward(20, 4096), 1, None)) == 20


def test_gradients_kept_alive_are_limited() -> None:
    """Two gradients are alive at a time anyway, while the one makes the other; all would need ten times as much."""
    assert [len(r) for r in find_regions(backward(20, 64 * MIB), 1, PROFILES)] == [4] * 10
    some = find_regions(backward(20, 4 * MIB, 20 * MIB), 1, PROFILES)
    assert 1 <= len(some) < 20, "activations that are freed meanwhile make room"


def test_values_read_while_hot_are_not_read_late() -> None:
    """A CPU region that alone reads a value from its cache gains more by it than an op less would: here the last, for
    every other gradient is read by the next matmul, too."""
    nodes = backward(4, MIB, 40 * MIB, CPU)
    assert [len(r) for r in find_regions(nodes, 1, PROFILES)] == [6, 2]
    assert len(find_regions(backward(4, MIB, 40 * MIB, GPU), 1, PROFILES)) == 1


def test_peers_wait_for_equally_many_matmuls() -> None:
    def head(name: str, after: str) -> list[RegionNode]:
        return [RegionNode(f"matmul_{name}", (after,), (), None, 1, nbytes=4096),
                RegionNode(f"bias_{name}", (f"matmul_{name}",), (), GPU, 1, nbytes=4096)]

    nodes = [RegionNode("x", (), (), None, 1), *head("q", "x"), *head("k", "x"), *head("late", "bias_k")]
    assert find_regions(nodes, 1, PROFILES) == [["bias_q", "bias_k"], ["bias_late"]]
    elsewhere = [RegionNode(n.name, n.inputs, n.controls, CPU if n.name == "bias_q" else n.place, 1, nbytes=4096)
                 for n in nodes]
    assert find_regions(elsewhere, 1, PROFILES) == [["bias_q"], ["bias_k"], ["bias_late"]]


def random_graph(rng: random.Random) -> list[RegionNode]:
    nodes: list[RegionNode] = []
    for i in range(rng.randint(2, 40)):
        inputs = tuple(dict.fromkeys(rng.choice(nodes).name for _ in range(min(len(nodes), rng.randint(0, 2)))))
        controls = tuple(rng.choice(nodes).name for _ in range(rng.random() < 0.2 and len(nodes) > 0))
        usable = [n for n in nodes if not n.sink]
        inputs = tuple(n for n in inputs if any(n == u.name for u in usable))
        place = rng.choice((None, GPU, GPU, CPU))
        sink = place is not None and rng.random() < 0.3
        nbytes = rng.choice((0, 64, MIB, 9 * MIB))
        nodes.append(RegionNode(f"n{i}", inputs, controls, place, rng.randint(0, 1), sink, nbytes))
    return nodes


@given(st.randoms(use_true_random=False))
def test_regions_are_disjoint_of_one_place_and_acyclic(rng: random.Random) -> None:
    nodes = random_graph(rng)
    regions = find_regions(nodes, 0, PROFILES)
    owner = {name: i for i, region in enumerate(regions) for name in region}
    assert len(owner) == sum(map(len, regions))
    place = {n.name: n.place for n in nodes}
    assert all(len({place[name] for name in region}) == 1 for region in regions)
    graph = nx.DiGraph((owner.get(p, p), owner.get(n.name, n.name)) for n in nodes for p in (*n.inputs, *n.controls)
                       if owner.get(p, p) != owner.get(n.name, n.name))
    assert nx.is_directed_acyclic_graph(graph)


def test_live_bytes_are_those_of_a_simulation() -> None:
    rng = random.Random(7)
    for _ in range(50):
        nodes = random_graph(rng)
        last = {n.name: i for i, n in enumerate(nodes)}
        last |= {p: i for i, n in enumerate(nodes) for p in n.inputs}
        alive = [sum(m.nbytes for j, m in enumerate(nodes) if j <= i <= last[m.name] and not m.sink)
                 for i in range(len(nodes))]
        assert LiveBytes(nodes).peak == max(alive)


def test_the_limit_is_five_percent() -> None:
    nodes = backward(8, 2 * MIB, 30 * MIB)
    memory = LiveBytes(nodes)
    limit = max(memory.peak * PEAK, memory.peak + SLACK_BYTES)
    names = [f"{kind}{i}" for i in range(8) for kind in ("scaled", "update")]
    for i in range(1, 8):
        if memory.allows(names[:2 * i], names[2 * i:2 * i + 2]):
            memory.merged(names[:2 * i + 2])
        assert memory.peak <= limit
