"""What explain says of reports, graphs and SavedModels, and the page it draws."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import tensorflow as tf
from explaining.load import Document, load_document
from explaining.page import write_page
from explaining.rows import NO_KERNEL, Graph, graphs
from explaining.text import table

from tf_stitch.errors import StitchError

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
needs_graphviz = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


def node(name: str, op: str, inputs: list[int], region: int | None = None, reason: str | None = None) -> dict[str, Any]:
    return {"name": name, "op": op, "region": region, "reason": reason, "inputs": inputs}


def kernel(region: int, build: int, nodes: list[str], **more: Any) -> dict[str, Any]:
    return {"region": region, "build": build, "device": "cpu", "symbol": "s", "rule": "row_reduction",
            "domain": [8, 16], "nodes": nodes, "node_schemes": {nodes[0]: "local"}, "schemes": {"local": 1},
            "predicted_us": 1.5, "bytes": 1024} | more  # fmt: skip


def region(number: int, nodes: dict[str, str]) -> dict[str, Any]:
    return {"id": number, "graph": "g", "device": "CPU", "wrap": "native", "nodes": nodes, "inputs": 1, "variables": 0,
            "outputs": 1, "executables": 2, "runs": 7, "fallbacks": 0}  # fmt: skip


SOLVER = {"solver": "ilp", "status": "optimal", "objective_us": 2.0, "bound_us": 2.0}


@pytest.fixture
def document() -> Document:
    nodes = [node("x", "_Arg", [], reason="an argument"), node("a<&\"\\", "Tanh", [0], 0), node("v", "Reshape", [1], 0),
             node("m", "MatMul", [2], reason="MatMul is a library call"), node("b", "Exp", [3], 1)]
    again = [node("x", "_Arg", [], reason="an argument"), node("tf_stitch_0/v", "StitchOp", [0], 0)]
    graph = {"graph": "g", "device": "CPU", "stitched_nodes": 3, "regions": [0, 1], "left_out": {}, "milliseconds": 1.0}
    return {
        "graphs": [graph | {"nodes": nodes}, graph | {"nodes": again, "stitched_nodes": 0, "regions": []}],
        "regions": [region(0, {"a<&\"\\": "Tanh", "v": "Reshape"}), region(1, {"b": "Exp"})],
        "kernels": [kernel(0, 0, ["a<&\"\\"], predicted_us=9.0), kernel(0, 1, ["a<&\"\\"], measured_us=2.5)],
        "builds": [{"region": 0, "shapes": [[8, 16]], "cached": False, "solver": SOLVER, "seconds": {}}],
        "fallbacks": [{"stage": "build", "where": "region 1", "reason": "gcc is gone", "count": 3}],
    }


def test_every_op_has_a_kernel_or_a_reason(document: Document) -> None:
    [graph] = graphs(document)
    ops = {op.name: op for op in graph.ops}
    assert [k.predicted_us for k in ops["a<&\"\\"].kernels] == [1.5]  # of the last executable
    assert ops["a<&\"\\"].scheme == "local"
    assert ops["v"].why == NO_KERNEL
    assert ops["b"].why == "build: gcc is gone"
    assert ops["m"].why == "MatMul is a library call"


def test_table(document: Document) -> None:
    [graph] = graphs(document)
    text = "\n".join(table(graph))
    assert "3 of 5 ops in 2 regions" in text
    assert "plan optimal by ilp" in text
    assert re.search(r"Tanh +0 +0\.0 +row_reduction +local +1\.50 +2\.50 +1024 +a", text)
    assert re.search(r"MatMul +MatMul is a library call +m$", text, re.MULTILINE)
    assert list(table(graph, "nothing*")) == []
    assert sum("MatMul" in line for line in table(graph, "m")) == 1
    assert not any("region 0" in line for line in table(graph, "b"))


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "other.json").write_text('{"graphs": 3}')
    (tmp_path / "noise.pb").write_bytes(b"\xff\xfe nothing")
    (tmp_path / "empty").mkdir()
    for name in ("broken.json", "other.json", "noise.pb", "empty", "missing"):
        with pytest.raises(StitchError):
            load_document(tmp_path / name)


@needs_graphviz
def test_page(document: Document, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_page(list(graphs(document)), path)
    text = path.read_text()
    assert not re.search(r'(?:src|href)="|@import|url\(', text.replace("xlink:href", ""))  # it needs nothing else
    drawing = ET.fromstring(text[text.index("<svg"):text.index("</svg>") + len("</svg>")])
    ids = {element.get("id") for element in drawing.iter()}
    assert {*(f"g0n{i}" for i in range(5)), "g0r0", "g0r1"} <= ids
    [data] = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert [op["name"] for op in data["ops"]][1] == "a<&\"\\"
    colours = {entry["colour"] for entry in data["regions"]}
    assert len(colours) == 2


@needs_graphviz
@needs_chromium
def test_page_in_a_browser(document: Document, tmp_path: Path) -> None:
    """Opened with a search, it marks the node, and tells its kernel."""
    path = tmp_path / "page.html"
    write_page(list(graphs(document)), path)
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
               "--virtual-time-budget=2000", "--dump-dom", f"file://{path}#tanh"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    found = re.search(r'<g id="g0n1" class="([^"]*)"', done.stdout)
    assert found, done.stderr[-2000:]
    assert "found" in found.group(1)
    assert "kernel 0.0 row_reduction 8 x 16, 1.5 us predicted, 2.5 us measured, 1024 bytes" in done.stdout
    assert re.search(r"<li[^>]*>region 1: 1 ops", done.stdout)


class Model(tf.Module):
    """A dense layer and a softmax."""

    def __init__(self) -> None:
        self.w = tf.Variable(tf.ones((16, 16)))

    @tf.function(input_signature=[tf.TensorSpec((None, 16), tf.float32)])
    def serve(self, x: Any) -> Any:
        return tf.nn.softmax(tf.tanh(tf.matmul(x, self.w)) * 2.0)


def only_graph(path: Path, size: int | None = None) -> Graph:
    [graph] = graphs(load_document(path, size))
    return graph


def test_saved_model(tmp_path: Path) -> None:
    model = Model()
    tf.saved_model.save(model, str(tmp_path / "model"), {"serving_default": model.serve})
    graph = only_graph(tmp_path / "model")
    whys = {op.op: op.why for op in graph.ops}
    assert whys["MatMul"] == "MatMul is a library call"
    assert whys["Softmax"] == "plan: its sizes are known at run time only"
    planned = {op.op: op for op in only_graph(tmp_path / "model" / "saved_model.pb", 32).ops}
    assert [k.rule for k in planned["Softmax"].kernels] == ["row_reduction"]
    assert planned["Tanh"].kernels == planned["Softmax"].kernels
    assert planned["VarHandleOp"].why


@pytest.mark.parametrize("suffix", ["pb", "pbtxt"])
def test_graph_def(tmp_path: Path, suffix: str) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, (8, 16), "x")
        tf.nn.softmax(tf.tanh(x) * 2.0, name="y")
    tf.io.write_graph(graph.as_graph_def(), str(tmp_path), f"graph.{suffix}", as_text=suffix == "pbtxt")
    ops = {op.name: op for op in only_graph(tmp_path / f"graph.{suffix}").ops}
    assert ops["y"].kernels
    assert "Placeholder" in str(ops["x"].why)


@needs_graphviz
def test_program(document: Document, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps(document))
    command = [sys.executable, str(ROOT / "tools" / "explain.py"), str(tmp_path), "--op=m", f"--html={tmp_path}/p.html"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "MatMul is a library call" in done.stdout
    assert (tmp_path / "p.html").exists()
