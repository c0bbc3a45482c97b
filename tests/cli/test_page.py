"""The page that explain draws, in a headless browser."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli.browser import CHROMIUM, Browser
from tests.cli.test_explain import build, kernel, node, region
from tf_stitch.cli.explain.page import write_page
from tf_stitch.cli.explain.rows import graphs

pytestmark = [pytest.mark.browser,
              pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: the page of explain is not tested")]


def train_step(layers: int, width: int) -> dict[str, Any]:
    """A report of a graph like a train step's: a region and a matmul a layer, there and back, and an update
    of many small parts."""
    nodes, regions, kernels, builds = [node("x", "_Arg", [], reason="an argument")], [], [], []
    last, activations = 0, []
    for layer in range(2 * layers):
        backward = layer >= layers
        regions.append(layer)
        for i in range(width):
            inputs = [last, activations.pop()] if backward and i == 0 else [last]
            nodes.append(node(f"layer_{layer}/op_{i}", "Tanh" if i % 2 else "Mul", inputs, layer))
            last = len(nodes) - 1
        if not backward:
            activations.append(last)
        names = [f"layer_{layer}/op_{i}" for i in range(width)]
        edges = [{"producer": a, "user": b, "scheme": "global", "why": ""} for a, b in pairwise(names)]
        kernels.append(kernel(layer, 0, names, edges=edges))
        nodes.append(node(f"layer_{layer}/matmul", "MatMul", [last], reason="MatMul is a library call"))
        last = len(nodes) - 1
    update = 2 * layers
    regions.append(update)
    for layer in range(layers):
        nodes.append(node(f"update/gradient_{layer}", "Sub", [last], update))
        nodes.append(node(f"update/assign_{layer}", "AssignVariableOp", [len(nodes) - 1], update))
    kernels.append(kernel(update, 0, [f"update/gradient_{layer}" for layer in range(layers)]))
    builds = [build(number, {}) for number in regions]
    entries = [region(number, {n["name"]: n["op"] for n in nodes if n["region"] == number}) for number in regions]
    graph = {"graph": "step", "device": "CPU", "stitched_nodes": 1, "regions": regions, "left_out": {},
             "milliseconds": 1.0, "nodes": nodes}
    return {"graphs": [graph], "regions": entries, "kernels": kernels, "builds": builds, "fallbacks": []}


DRAWN_COLOURS = """(() => {
  const found = new Map();
  for (const canvas of document.querySelectorAll("main canvas")) {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    for (let i = 0; i < pixels.length; i += 4) {
      const colour = [...pixels.subarray(i, i + 3)];
      found.set(String(colour), colour);
    }
  }
  return [...found.values()];
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


def open_closed(browser: Browser, address: str) -> None:
    """Opens a page, and closes the box that it opens."""
    browser.open(address)
    browser.evaluate("document.getElementById('close').click()")


def page(path: Path, layers: int, width: int) -> str:
    write_page(list(graphs(train_step(layers, width))), path)
    return f"file://{path}"


def place_of(browser: Browser, element: str) -> tuple[float, float]:
    """Of an element's middle on the screen."""
    x, y, left, top = browser.evaluate(
        f"(({{x, y}}, box) => [x, y, box.left, box.top])(cy.getElementById('{element}').renderedPosition(), "
        "cy.container().getBoundingClientRect())")
    return left + x, top + y


def test_regions_are_drawn_and_open_on_a_click(browser: Browser, tmp_path: Path) -> None:
    open_closed(browser, page(tmp_path / "page.html", 2, 3))
    assert browser.evaluate("cy.nodes().map(n => n.data('label').split(':')[0]).sort()") == \
        ["MatMul", "MatMul", "MatMul", "MatMul", "region 0", "region 1", "region 2", "region 3", "region 4"]
    browser.click(*place_of(browser, "r1"))
    assert browser.evaluate("[...open]") == ["r1"]
    assert browser.evaluate("cy.nodes('.found').id()") == "r1"
    assert browser.evaluate("cy.getElementById('n5').data('label')") == "Mul"
    browser.click(*place_of(browser, "n5"))
    details = browser.evaluate("details.innerText")
    assert details.startswith("layer_1/op_0")
    assert "kernel 1.0: row_reduction 8 x 16, 3 ops, 1.5 us predicted" in details
    assert "layer_0/matmul (MatMul), memory" in details
    assert "layer_1/op_1 (Tanh), global" in details  # the edge's, not what the op's value has elsewhere
    assert not browser.errors


def test_kernels_are_boxes_in_regions_of_several(browser: Browser, tmp_path: Path) -> None:
    document = train_step(2, 6)
    document["kernels"][1]["nodes"] = [f"layer_1/op_{i}" for i in range(4)]
    document["kernels"].append(kernel(1, 0, ["layer_1/op_4", "layer_1/op_5"], launch="stitch_1"))
    write_page(list(graphs(document)), tmp_path / "page.html")
    open_closed(browser, f"file://{tmp_path / 'page.html'}")
    browser.click(*place_of(browser, "r1"))
    labels = "cy.nodes('.kernel').map(n => n.data('label').split('\\n'))"
    assert browser.evaluate(labels) == [["kernel 1.0: row_reduction 8 x 16, 4 ops", "layer_1", "1.5 us predicted"],
                                        ["kernel 1.1: row_reduction 8 x 16, 2 ops", "layer_1", "1.5 us predicted"]]
    assert browser.evaluate("cy.edges().some(e => e.source().id() === 'k1.0' && e.target().id() === 'k1.1')")
    browser.click(*place_of(browser, "k1.1"))
    assert browser.evaluate("[...open]") == ["r1", "k1.1"]
    assert browser.evaluate("cy.nodes().filter(n => n.id()[0] === 'n' && n.data('colour') !== '#fff').length") == 2
    for inner, outer in (("n12", "k1.1"), ("k1.1", "r1")):
        assert browser.evaluate(f"(([a, b]) => b.x1 <= a.x1 && b.y1 <= a.y1 && a.x2 <= b.x2 && a.y2 <= b.y2)"
                                f"(['{inner}', '{outer}'].map(id => cy.getElementById(id).boundingBox()))")
    browser.evaluate("details.querySelector('button').click()")
    assert browser.evaluate("[...open]") == ["r1"]
    assert not browser.errors


def test_search_finds_the_users_node(browser: Browser, tmp_path: Path) -> None:
    browser.open(page(tmp_path / "page.html", 2, 3))
    browser.evaluate("search.focus()")
    browser.type("layer_3/matmul")
    browser.evaluate("new Promise(done => setTimeout(done, 400))")
    assert browser.evaluate("cy.nodes('.found').data('label')") == "MatMul"
    assert "TensorFlow runs it\nMatMul is a library call" in browser.evaluate("details.innerText")
    assert browser.evaluate("[...hits.children].map(li => li.textContent)") == ["layer_3/matmul (MatMul)"]
    browser.open(page(tmp_path / "page.html", 2, 3) + "#LAYER_2/op_1")
    assert browser.evaluate("cy.nodes('.found').data('label')") == "Tanh"  # in a region that was opened for it
    assert browser.evaluate("cy.getElementById('n0').length") == 0
    browser.evaluate("search.value = '_arg'; find()")  # arguments are shown on demand
    assert browser.evaluate("cy.nodes('.found').map(n => n.id())") == ["n0"]
    browser.evaluate("search.value = 'nothing like it'; find()")
    assert browser.evaluate("hits.textContent") == "nothing of this graph has all these words"


def timed(folder: Path) -> str:
    """The page of a step whose region 2 takes most, and of it the second kernel; region 1 was slower than TensorFlow's
    ops."""
    document = train_step(2, 6)
    document["kernels"][2]["nodes"] = [f"layer_2/op_{i}" for i in range(4)]
    document["kernels"].append(kernel(2, 0, ["layer_2/op_4", "layer_2/op_5"], launch="stitch_1", predicted_us=4.0,
                                      measured_us=6.0))
    document["profitability"] = [
        {"region": 1, "stitched_us": 9.0, "fallback_us": 3.0, "chosen": "fallback"},
        {"region": 2, "stitched_us": 12.0, "fallback_us": 48.0, "chosen": "stitched"}]
    write_page(list(graphs(document)), folder / "page.html")
    return f"file://{folder / 'page.html'}"


def test_the_page_opens_where_time_goes(browser: Browser, tmp_path: Path) -> None:
    browser.open(timed(tmp_path))
    assert browser.evaluate("[...open]") == ["r2"]
    assert browser.evaluate("cy.nodes('.found').id()") == "r2"
    first, second, *_ = browser.evaluate("[...regionList.children].map(li => li.textContent)")
    assert first == "62% region 2: 6 ops, layer_2, 5.5 us predicted, 12.0 us measured, 48.0 us by TensorFlow's ops"
    assert second.startswith("15% region 1: 6 ops, layer_1, "), "by what runs: TensorFlow's ops"
    browser.evaluate("document.getElementById('close').click()")
    assert browser.evaluate("cy.getElementById('r2').data('label').split('\\n')") == [
        "region 2: 6 ops, 2 kernels", "layer_2", "5.5 us predicted, 12.0 us measured, 48.0 us by TensorFlow's ops"]
    assert not browser.errors


def test_a_layer_in_the_address_lands_on_its_largest_kernel(browser: Browser, tmp_path: Path) -> None:
    address = timed(tmp_path)
    browser.open(f"{address}#LAYER_2")
    assert browser.evaluate("cy.nodes('.found').id()") == "k2.1"
    assert browser.evaluate("[...open]") == ["r2", "k2.1"]
    browser.open(f"{address}#layer")
    assert browser.evaluate("cy.nodes('.found').id()") == "k2.1", "of all layers"
    browser.open(f"{address}#layer_3")
    assert browser.evaluate("cy.nodes('.found').id()") == "r3", "a region that is one kernel"
    browser.open(f"{address}#layer_2/op_1")
    assert browser.evaluate("cy.nodes('.found').data('label')") == "Tanh", "an op"
    browser.open(f"{address}#matmul")
    assert browser.evaluate("cy.nodes('.found').data('label')") == "MatMul", "of no kernel"
    assert not browser.errors


@pytest.mark.parametrize(("text", "first", "count"), [
    ("matmul", "layer_0/matmul (MatMul)", 4), ("layer_2 op_1", "layer_2/op_1 (Tanh)", 1),
    ("op_2", "layer_0/op_2 (Mul)", 4), ("tanh", "layer_0/op_1 (Tanh)", 4),
    ("library call", "layer_0/matmul (MatMul)", 4), ("region 3", "region 3", 4),
    ("region 3 tanh", "layer_3/op_1 (Tanh)", 1), ("layer", "layer_0/op_0 (Mul)", 16)])
def test_search_finds_what_one_means(browser: Browser, tmp_path: Path, text: str, first: str, count: int) -> None:
    browser.open(page(tmp_path / "page.html", 2, 3))
    browser.evaluate(f"search.value = {json.dumps(text)}; find()")
    found = browser.evaluate("[...hits.children].map(li => li.textContent)")
    assert (found[0], len(found)) == (first, count)


def test_zoom_and_colours(browser: Browser, tmp_path: Path) -> None:
    browser.open(page(tmp_path / "page.html", 2, 3))
    before = browser.evaluate("cy.zoom()")
    browser.wheel(900, 500, -240)
    browser.evaluate("new Promise(done => setTimeout(done, 300))")
    assert browser.evaluate("cy.zoom()") > before
    browser.evaluate("document.getElementById('fit').click()")
    browser.evaluate("new Promise(done => setTimeout(done, 300))")
    fills = browser.evaluate("cy.nodes('.region').map(n => n.numericStyle('background-color'))")
    wanted = {tuple(fill[:3]) for fill in fills}
    assert len(wanted) == 5
    assert wanted <= {tuple(c) for c in browser.evaluate(DRAWN_COLOURS)}


def test_three_thousand_nodes(browser: Browser, tmp_path: Path) -> None:
    path = page(tmp_path / "page.html", 60, 24)
    total = sum(len(graph["nodes"]) for graph in train_step(60, 24)["graphs"])
    assert total > 3000
    start = time.perf_counter()
    open_closed(browser, path)
    assert browser.evaluate("cy.nodes().length") == 241  # boxes, and what TensorFlow runs
    browser.evaluate("showOp(shown.ops.findIndex(op => op.name === 'layer_119/op_23'))")
    assert browser.evaluate("cy.nodes('.found').data('label')") == "Tanh"
    assert time.perf_counter() - start < 60
    assert not browser.errors


def test_the_page_needs_nothing_else_and_names_are_text(browser: Browser, tmp_path: Path) -> None:
    document = train_step(1, 2)
    evil = "</script><script>document.title='broken'</script><b>"
    document["graphs"][0]["nodes"][-1]["name"] = evil
    write_page(list(graphs(document)), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert not re.search(r"<(?:script|img|link|iframe)[^>]+(?:src|href)=", text)
    assert "default-src 'none'" in text
    browser.open(f"file://{tmp_path / 'page.html'}")
    assert browser.evaluate("document.title") == "tf_stitch: what was stitched"
    assert browser.evaluate("shown.ops.at(-1).name") == evil
    browser.evaluate("showOp(shown.ops.length - 1)")
    assert browser.evaluate("details.querySelector('b').textContent") == evil
    assert json.loads(browser.evaluate("JSON.stringify(graphs.length)")) == 1
    assert not browser.errors
