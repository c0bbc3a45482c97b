"""Graphs that are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.graph.graph_item import CalledFunctions
from tf_stitch.jit.lifetimes import Lifetimes
from tf_stitch.report.entries import GraphEntry, NodeEntry, RegionEntry
from tf_stitch.report.report import Report


def test_a_graph_ends_with_the_last_kernel_of_its_regions() -> None:
    ended: list[Sequence[int]] = []
    kernels = Counter({1: 1, 2: 1, 3: 1})
    lifetimes = Lifetimes(lambda region: kernels[region], ended.append)
    lifetimes.begin([1, 2])
    lifetimes.begin([3])
    kernels[1] = 0
    lifetimes.left(1)
    assert ended == []
    kernels[2] = 0
    lifetimes.left(2)
    assert ended == [(1, 2)]
    lifetimes.left(1)
    lifetimes.left(7)
    assert ended == [(1, 2)]


def test_functions_are_called_by_what_came_before_them() -> None:
    functions, caller = CalledFunctions(), GraphDef()
    for name in ("body", "caller"):
        caller.library.function.add().signature.name = name
    assert not functions.visit("caller", caller)
    assert functions.visit("body", GraphDef())
    assert not functions.visit("caller", caller)


def graph(number: int, regions: list[int]) -> GraphEntry:
    return GraphEntry(f"g{number}", "CPU", [NodeEntry("a", "Add", None, None, [])], len(regions), regions, {}, 1.0)


def test_the_report_keeps_the_latest_of_what_is_gone() -> None:
    report = Report(most_gone=2)
    for number in range(10):
        report.add(graph(number, [number]))
        report.add(RegionEntry(number, f"g{number}", "", "native", {}, 1, 0, 1))
        report.add_source(f"region_{number}_0.c", "")
        report.remark("sizes", f"region {number}", "")
    for number in range(5):
        report.end([number])
    assert [region.id for region in report.regions] == [3, 4, 5, 6, 7, 8, 9]
    assert [entry.graph for entry in report.graphs] == [f"g{n}" for n in range(3, 10)]
    assert sorted(report.sources()) == [f"region_{n}_0.c" for n in range(3, 10)]
    assert report.document(None)["dropped"] == {"graphs": 3, "nodes": 3, "stitched_nodes": 3, "regions": 3,
                                                "kernels": 0, "given_back": 0}
    assert "10 graphs, 10 of 10 nodes in 10 regions" in report.status_line(True)


def test_graphs_without_regions_and_reasons_have_an_end() -> None:
    report = Report(most_gone=2)
    for number in range(10_000):
        report.add(graph(number, []))
        report.note("run", f"region {number}", "why")
    assert len(report.graphs) <= 8
    assert report.status_line(True).startswith("[tf_stitch] 10000 graphs, 0 of 10000 nodes in 0 regions")
    document = report.document(None)
    assert len(document["fallbacks"]) == 1001
    assert sum(entry["count"] for entry in document["fallbacks"]) == 10_000
