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


def late(text: str) -> tuple[dict[str, list[int]], list[str]]:
    """Which inputs of each region are late, and which sums and exchanges nothing but those waits for."""
    graph = graph_of(text)
    for node in graph.node:
        node.device = f"/device:GPU:{node.name.endswith('b'):d}"
        if node.op.startswith("Stitch") and node.op.endswith("Op"):
            node.attr["Tin"].list.type.extend([1] * sum(not name.startswith("^") for name in node.input))
    deliver_early(graph)
    return ({n.name: list(n.attr["late"].list.i) for n in graph.node if n.attr["late"].list.i},
            [n.name for n in graph.node if n.attr["late"].b])


def test_a_region_waits_for_sums_where_it_reads_them() -> None:
    assert late("""
        region = StitchStateOp()
        sum_0 = StitchAllReduce(region)
        sum_1 = StitchAllReduce(region:1)
        sum_2 = StitchAllReduce(region:2)
        update = StitchStateOp(region:3, sum_1, sum_0)
        one = StitchOp(sum_2)
        other = L2Loss(sum_2)
    """) == ({"update": [2, 1]}, ["sum_0", "sum_1"])


def test_of_an_exchange_what_was_given_is_read_there_too() -> None:
    """Its memory is free when nobody holds it, though it may still be copied."""
    exchange = """
        region = StitchStateOp()
        got = StitchExchange(region)
        update = StitchStateOp({}got)
        norm = L2Loss(region)
    """
    assert late(exchange.format("region, ")) == ({"update": [1]}, ["got"])
    assert late(exchange.format("")) == ({}, [])
    assert marked(exchange.format("region, ")) == ({"region": [0]}, ["got"])


def test_variables_and_other_devices_are_not_late() -> None:
    assert late("""
        region = StitchStateOp()
        sum = StitchAllReduce(region)
        update_b = StitchStateOp(sum)
    """) == ({}, [])
