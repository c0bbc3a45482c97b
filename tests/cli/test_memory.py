"""`explain --memory`: the curve of a region, and who holds most at its peak."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_explain import build, kernel, node, region
from tf_stitch.cli.explain.command import main
from tf_stitch.cli.explain.load import Document
from tf_stitch.cli.explain.memory import curve, layer_of, memory_lines, memory_section, region_memories, svg
from tf_stitch.cli.explain.page import write_page
from tf_stitch.cli.explain.rows import graphs

MIB = 1 << 20


@pytest.fixture
def document() -> Document:
    memory = {"alive": [MIB, 4 * MIB, 6 * MIB, MIB], "peak": 2, "least_bytes": 5 * MIB, "results_bytes": 4,
              "holders": [["block/dense/Tanh", 2 * MIB], ["gradient_tape/block/dense/Mul", MIB], ["", MIB],
                          ["head/MatMul", 2 * MIB]]}
    nodes = [node("x", "_Arg", [], reason="an argument"), node("block/dense/Tanh", "Tanh", [0], 0),
             node("gradient_tape/block/dense/Mul", "Mul", [1], 0), node("head/MatMul", "MatMul", [2], 0)]
    graph: dict[str, Any] = {"graph": "g", "device": "CPU", "stitched_nodes": 3, "regions": [0, 1], "nodes": nodes,
                             "milliseconds": 1.0, "left_out": {}, "sources": {"head/MatMul": "/home/me/train<1>.py:8"}}
    names = {n["name"]: n["op"] for n in nodes[1:]}
    return {"graphs": [graph], "regions": [region(0, names), region(1, {})], "fallbacks": [], "remarks": [],
            "kernels": [kernel(0, 0, list(names))], "profitability": [],
            "builds": [build(0, {}) | {"arena_bytes": 6 * MIB, "memory": memory}, build(1, {})]}


def test_who_holds_most_by_layer_and_line(document: Document) -> None:
    lines = list(memory_lines(region_memories(document, list(graphs(document)))))
    assert lines[0] == ("region 0: 6.0 MiB at most, time 3 of 4; at least 5.0 MiB in any order of its kernels; arena "
                        "6.0 MiB, results 0.0 MiB")
    assert lines[1] == "  |▂▆█▂|"
    assert [line.split(maxsplit=4)[0::4] for line in lines[2:5]] == [
        ["3.0", "block/dense"], ["2.0", "head, /home/me/train<1>.py:8"], ["1.0", "values of no op"]]
    assert "50.0 %" in lines[2], "a gradient's values are its layer's"


def test_what_budgets_would_cost(document: Document) -> None:
    document["builds"][0]["memory"] |= {"step_us": 200.0, "budgets": [
        {"fraction": 1.0, "bytes": 6 * MIB, "us": 0.0, "kept": True},
        {"fraction": 0.5, "bytes": 4 * MIB, "us": 5.0, "kept": False}]}
    lines = list(memory_lines(region_memories(document, list(graphs(document)))))
    at = lines.index("  TF_STITCH_MEMORY, as predicted; a step of kernels and calls takes 200.0 us")
    assert lines[at + 1:at + 3] == ["   1.0        6.0 MiB          0.0 us more (0.0 %)",
                                    "   0.5        4.0 MiB          5.0 us more (2.5 %), the least that was found"]


def test_there_may_be_nothing_to_tell(document: Document) -> None:
    document["builds"][0].pop("memory")
    found = list(graphs(document))
    assert list(memory_lines(region_memories(document, found))) == [
        "no region has kernels of its own, or the report is of an earlier version"]
    assert memory_section(region_memories(document, found)) == ""


def test_the_curve_keeps_the_peak_however_long_the_step() -> None:
    alive = [1] * 505 + [8] + [1] * 500
    assert len(curve(alive)) == 60
    assert curve(alive).count("█") == 1
    assert curve([]) == curve([0, 0]) == ""


@pytest.mark.parametrize(("name", "layer"), [
    ("model/layer_1/dense/Tanh", "model/layer_1"), ("gradient_tape/model/layer_1/dense/mul", "model/layer_1"),
    ("StatefulPartitionedCall/head/MatMul", "head"), ("Tanh", "Tanh"), ("", "values of no op")])  # fmt: skip
def test_layers(name: str, layer: str) -> None:
    assert layer_of(name) == layer


def test_the_drawing_ends_at_the_peak(document: Document) -> None:
    [memory] = region_memories(document, list(graphs(document)))
    drawn = svg(memory, 400, 60)
    points = re.findall(r"([\d.]+),([\d.]+)", drawn)
    assert min(float(y) for _, y in points) == 0
    assert max(float(x) for x, _ in points) == 400
    assert 'y1="10.0"' in drawn, "5 of 6 MiB"


def test_the_page_has_it_and_nothing_of_the_users_is_taken_for_html(document: Document, tmp_path: Path) -> None:
    found = list(graphs(document))
    write_page(found, tmp_path / "page.html", region_memories(document, found))
    page = (tmp_path / "page.html").read_text()
    assert "region 0: 6.0 MiB at most" in page
    assert "train&lt;1&gt;.py:8" in page
    assert "@MEMORY@" not in page
    write_page(found, tmp_path / "page.html")
    assert "<details" not in (tmp_path / "page.html").read_text()


def test_the_command(document: Document, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "report.json").write_text(json.dumps(document))
    assert main([str(tmp_path), "--memory"]) == 0
    assert capsys.readouterr().out.startswith("region 0: 6.0 MiB at most")
