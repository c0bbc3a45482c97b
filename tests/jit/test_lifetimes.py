"""Graphs that are gone."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from tensorflow.core.framework.graph_pb2 import GraphDef

from tf_stitch.graph.graph_item import CalledFunctions
from tf_stitch.jit.lifetimes import Lifetimes
from tf_stitch.report.entries import GraphEntry, NodeEntry, RegionEntry
from tf_stitch.report.report import Report


class Kept:
    """What TensorFlow keeps of two functions, f of regions 1 and 2 and g of region 3."""

    def __init__(self) -> None:
        self.kernels = Counter({1: 1, 2: 1, 3: 1})
        self.functions = {"f", "g"}
        self.ended: list[Sequence[int]] = []
        self.lifetimes = Lifetimes(self.kernels.__getitem__, self.functions.__contains__, self.ended.append)
        self.lifetimes.begin("f", [1, 2])
        self.lifetimes.begin("g", [3])

    def leave(self, region: int) -> None:
        self.kernels[region] = 0
        self.lifetimes.left(region)


def test_a_graph_ends_with_the_last_kernel_of_its_regions() -> None:
    kept = Kept()
    kept.functions.remove("f")
    kept.leave(1)
    assert kept.ended == []
    kept.leave(2)
    assert kept.ended == [(1, 2)]
    kept.leave(1)
    kept.leave(7)
    assert kept.ended == [(1, 2)]


def test_a_graph_that_has_no_kernel_for_a_while_goes_on() -> None:
    kept = Kept()
    kept.kernels[2] = 0
    kept.leave(1)  # constant folding has made a kernel of one region, and freed it
    assert kept.ended == []
    kept.kernels[1] = kept.kernels[2] = 1
    kept.functions.remove("f")
    kept.lifetimes.left(3)
    assert kept.ended == [], "removed, but still running"
    kept.kernels[2] = 0
    kept.leave(1)
    assert kept.ended == [(1, 2)]


def test_a_function_that_is_removed_after_its_kernels_ends_with_the_next_graph() -> None:
    kept = Kept()
    kept.kernels[2] = 0
    kept.leave(1)
    kept.functions.remove("f")
    kept.functions.add("h")
    kept.lifetimes.begin("h", [4])
    assert kept.ended == [(1, 2)]


def test_it_is_looked_again_for_functions_that_are_removed_later() -> None:
    kept = Kept()
    kept.kernels[2] = 0
    kept.leave(1)
    kept.functions.remove("f")
    deadline = time.monotonic() + 20
    while not kept.ended and time.monotonic() < deadline:
        time.sleep(0.01)
    assert kept.ended == [(1, 2)]


def test_graphs_of_sessions_stay() -> None:
    kept = Kept()
    kept.lifetimes.begin("tf_graph", [5])
    kept.leave(5)
    assert kept.ended == []


def test_functions_are_called_by_what_came_before_them() -> None:
    functions, caller = CalledFunctions(), GraphDef()
    for name in ("body", "caller"):
        caller.library.function.add().signature.name = name
    assert not functions.visit("caller", caller)
    assert functions.visit("body", GraphDef())
    assert not functions.visit("caller", caller)


def graph(number: int, regions: list[int]) -> GraphEntry:
    return GraphEntry(f"g{number}", "CPU", [NodeEntry("a", "Add", None, None, [])], len(regions), regions,
                      {} if regions else {"why not": 1}, 1.0, stitched_work=len(regions))


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
    assert report.document()["dropped"] == {"graphs": 3, "nodes": 3, "stitched_nodes": 3, "regions": 3,
                                                "kernels": 0, "given_back": 0, "work": 3, "stitched_work": 3}
    assert "10 regions, 0 kernels for 10 of 10 ops" in report.status_line()


def test_graphs_without_regions_and_reasons_have_an_end() -> None:
    report = Report(most_gone=2)
    for number in range(10_000):
        report.add(graph(number, []))
        report.note("run", f"region {number}", "why")
    assert len(report.graphs) <= 8
    assert report.status_line().startswith("nothing was stitched: why not (")
    document = report.document()
    assert len(document["fallbacks"]) == 1001
    assert sum(entry["count"] for entry in document["fallbacks"]) == 10_000
