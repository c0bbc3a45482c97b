"""The first screen of explain, and the ops of a line of the program."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.test_explain import build, kernel, node, region
from tf_stitch.cli.explain.load import Document
from tf_stitch.cli.explain.rows import graphs
from tf_stitch.cli.explain.summary import summary
from tf_stitch.cli.explain.text import table


@pytest.fixture
def document() -> Document:
    nodes = [node("x", "_Arg", [], reason="an argument"), node("a", "Tanh", [0], 0), node("m", "MatMul", [1],
             reason="MatMul is a library call"), node("n", "MatMul", [2], reason="MatMul is a library call"),
             node("b", "Exp", [3], 1), node("i", "Reshape", [4], reason="costs nothing by itself"),
             node("p", "Square", [5], reason="not in TF_STITCH_ONLY")]  # fmt: skip
    graph: dict[str, Any] = {
        "graph": "g", "device": "CPU", "stitched_nodes": 2, "regions": [0, 1], "milliseconds": 1.0, "nodes": nodes,
        "left_out": {"MatMul is a library call": 2, "not in TF_STITCH_ONLY": 1},
        "sources": {"a": "/home/me/train.py:7", "m": "/home/me/train.py:8", "n": "/home/me/train.py:8"}}
    return {
        "graphs": [graph], "regions": [region(0, {"a": "Tanh"}), region(1, {"b": "Exp"}) | {"runs": 700}],
        "kernels": [kernel(0, 0, ["a"], predicted_us=9.0), kernel(1, 0, ["b"], predicted_us=2.0)],
        "builds": [build(0, {}), build(1, {})],
        "profitability": [{"region": 0, "stitched_us": 10.0, "fallback_us": 30.0, "chosen": "stitched"}],
        "fallbacks": [{"stage": "build", "where": "region 1", "reason": "gcc is gone", "count": 3}],
        "remarks": [{"stage": "sizes", "where": "region 1", "reason": "each of its sizes", "count": 2}],
    }


def test_what_takes_most_comes_first(document: Document) -> None:
    lines = list(summary(document, list(graphs(document))))
    assert lines[0] == ("1 of 2 regions were timed in the run: 10 us for a run of each, 30 us by TensorFlow's "
                        "ops, each alone; 0 gave way")  # fmt: skip
    regions = [line.split()[:2] for line in lines if line.startswith("  region ")]
    assert regions == [["region", "1"], ["region", "0"]], "700 runs of 2 us, 7 of 10"
    kernels = [line.split()[0] for line in lines if "row_reduction" in line]
    assert kernels == ["1.0", "0.0"]
    assert any("1 op to a, /home/me/train.py:7" in line for line in lines)


def test_the_users_step_is_told_before_regions(document: Document) -> None:
    steps = [{"function": "__inference_step_3", "calls": 90, "before_us": [4.0] * 4, "now_us": [2.0] * 4, "recalled": 0,
              "why_not": ""}]
    lines = list(summary(document | {"steps": steps}, list(graphs(document))))
    assert lines[0] == "a call of step took 4 us and takes 2 us now: 2.00x (middle half of 4 turns)"
    assert lines[2].startswith("  (alone, TensorFlow's ops took longer than a whole call of step: ")
    long = [{**step, "before_us": [40.0] * 4} for step in steps]
    assert not any("a whole call" in line for line in summary(document | {"steps": long}, list(graphs(document))))


def test_reasons_of_what_costs_something_have_a_place(document: Document) -> None:
    lines = list(summary(document, list(graphs(document))))
    assert "      2  MatMul is a library call, as at /home/me/train.py:8" in lines
    assert "      1  not in TF_STITCH_ONLY, as p" in lines
    assert not any("costs nothing" in line for line in lines)
    assert "  what would help: a variable of yours leaves ops out" in lines
    assert any(line.startswith("      3  build: gcc is gone") for line in lines)
    assert any(line.startswith("      2  sizes: each of its sizes") for line in lines)
    assert len(lines) < 40, "a screen"


@pytest.mark.parametrize(("source", "found"), [
    ("train.py:8", {"m", "n"}), ("train.py", {"a", "m", "n"}), ("/home/me/train.py:7", {"a"}), ("rain.py:8", set()),
    ("train.py:9", set())])  # fmt: skip
def test_ops_of_a_line(document: Document, source: str, found: set[str]) -> None:
    [graph] = graphs(document)
    lines = list(table(graph, source=source))
    assert {line.split()[-1] for line in lines if line.startswith(("Tanh", "MatMul"))} == found


def test_conditionals_became_selects_or_say_why_not(document: Document) -> None:
    document["graphs"][0]["branches"] = [
        {"name": "cond", "node": "a", "predicate": "p:0", "reason": None, "nodes": 12, "bytes": 4096},
        {"name": "cond_1", "node": "none", "predicate": "q:0", "reason": "m is in a loop", "nodes": 3, "bytes": 0}]
    lines = list(summary(document, list(graphs(document))))
    at = lines.index("conditionals")
    assert lines[at + 1:at + 3] == [
        "  cond, /home/me/train.py:7: became selects: 12 nodes run on both sides, 4,096 bytes at most are updated or "
        "chosen for nothing", "  cond_1: stays a branch: m is in a loop"]


def test_a_report_without_regions(document: Document) -> None:
    document |= {"regions": [], "kernels": [], "builds": [], "profitability": []}
    document["graphs"][0] |= {"regions": [], "nodes": [node("x", "_Arg", [], reason="an argument")]}
    assert next(iter(summary(document, list(graphs(document))))) == "no region has kernels"
