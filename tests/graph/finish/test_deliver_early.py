"""A sum begins early where it alone reads what a region of its device hands out."""

from __future__ import annotations

from tests.graph.graphs import graph_of
from tf_stitch.graph.finish.deliver_early import deliver_early


def marked(text: str) -> tuple[dict[str, list[int]], list[str]]:
    """Which outputs of each region are early, and which sums know that. Nodes whose names end with b are elsewhere."""
    graph = graph_of(text)
    for node in graph.node:
        node.device = f"/device:GPU:{node.name.endswith('b'):d}"
    deliver_early(graph)
    return ({n.name: list(n.attr["early"].list.i) for n in graph.node if n.attr["early"].list.i},
            [n.name for n in graph.node if n.attr["early"].b])


def test_several_sums_of_one_region() -> None:
    assert marked("""
        key = Const()
        region = StitchStateOp()
        sum_0 = StitchAllReduce(region, key)
        sum_2 = StitchAllReduce(region:2, key, ^sum_0)
        loss = Identity(region:1)
        next = StitchOp(sum_0, sum_2, ^region)
    """) == ({"region": [0, 2]}, ["sum_0", "sum_2"])


def test_others_read_it_too() -> None:
    """Their numbers would be written over."""
    assert marked("""
        region = StitchOp()
        sum = StitchAllReduce(region:0)
        norm = L2Loss(region)
    """) == ({}, [])


def test_of_another_device_or_not_of_a_region() -> None:
    assert marked("""
        region_b = StitchOp()
        sum = StitchAllReduce(region_b)
        given = _Arg()
        other = StitchAllReduce(given)
    """) == ({}, [])
