"""A graph as SVG, laid out by Graphviz in two levels: every region by itself, then the graph with regions as boxes.

A region is convex, so the boxes and the ops between them form layers; and small layouts are fast.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree as ET

from explaining.rows import Graph, Op, Region
from tf_stitch.errors import StitchError

SVG = "{http://www.w3.org/2000/svg}"
LAYERED_SECONDS = 60
"""Layers show the flow best, but may take long; a layout by forces then takes their place."""
_POINTS = 72  # of an inch, which Graphviz measures nodes in
_LABEL = 22
_STYLE = ('pack=8; nslimit=1; splines=line; ranksep=0.3; nodesep=0.12; bgcolor=transparent; '
          'node [shape=box, fontname=Helvetica, fontsize=10, height=0.25, margin="0.08,0.03", style=filled, '
          'fillcolor=white]; '
          'edge [arrowsize=0.5, color="#00000070"];')  # fmt: skip


def colour(region: int) -> tuple[float, float, float]:
    """Hue, saturation, value: neighbours in number are far apart in hue."""
    return region * 0.618 % 1, 0.30, 0.96


def draw(graph: Graph, number: int) -> ET.Element:
    """The SVG element of a graph. Element ids are g<number>n<place> of ops and g<number>r<region> of regions.

    Raises:
        StitchError: Graphviz is not installed, or failed.
    """
    if shutil.which("dot") is None:
        raise StitchError("the page is drawn by Graphviz, which is not installed: apt-get install graphviz")
    inside = {region.number: _layout(_region_source(graph, region, number)) for region in graph.regions}
    outer = _layout(_outer_source(graph, number, {r: _size(svg) for r, svg in inside.items()}))
    groups = {group.get("id"): group for group in outer.iter(f"{SVG}g")}
    for region, svg in inside.items():
        _put_inside(groups[f"g{number}r{region}"], svg)
    return outer


def _region_source(graph: Graph, region: Region, number: int) -> str:
    places = {i for i, op in enumerate(graph.ops) if op.region == region.number}
    edges = (f"n{before} -> n{i};" for i in sorted(places) for before in graph.ops[i].inputs if before in places)
    return _digraph((*(_node(graph.ops[i], i, number) for i in sorted(places)), *edges))


def _outer_source(graph: Graph, number: int, sizes: dict[int, tuple[float, float]]) -> str:
    """Regions as boxes of the size that their insides need."""
    lines: list[str] = []
    for region in graph.regions:
        width, height = sizes[region.number]
        hue, _, _ = colour(region.number)
        lines.append(f'r{region.number} [id="g{number}r{region.number}", label="{_title(region)}", labelloc=t, '
                     f'fixedsize=true, width={width / _POINTS}, height={(height + 2 * _LABEL) / _POINTS}, '
                     f'style="filled,rounded", fillcolor="{hue:.3f} 0.10 0.99", color="#999999"];')  # fmt: skip
    lines += [_node(op, i, number) for i, op in enumerate(graph.ops) if op.region is None]
    names = [f"n{i}" if op.region is None else f"r{op.region}" for i, op in enumerate(graph.ops)]
    edges = {(names[before], names[i]): None for i, op in enumerate(graph.ops) for before in op.inputs}
    return _digraph((*lines, *(f"{a} -> {b};" for a, b in edges if a != b)))


def _title(region: Region) -> str:
    cost = f", {sum(k.predicted_us for k in region.kernels):.0f} us" if region.kernels else ""
    return f"region {region.number}{cost}"


def _digraph(lines: Iterable[str]) -> str:
    return "\n".join(["digraph {", _STYLE, *lines, "}"])


def _node(op: Op, place: int, number: int) -> str:
    style = 'style="filled,dashed", color="#777777"'
    if op.region is not None:
        style = 'fillcolor="{:.3f} {:.2f} {:.2f}"'.format(*colour(op.region))
    if op.op == "Const":
        style += ', shape=ellipse, fontsize=7, height=0.15, fontcolor="#777777"'
    return f'n{place} [id="g{number}n{place}", label={_quoted(op.op)}, tooltip={_quoted(op.name)}, {style}];'


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _layout(source: str) -> ET.Element:
    try:
        done = _graphviz("dot", source, LAYERED_SECONDS)
    except subprocess.TimeoutExpired:
        done = _graphviz("sfdp", source, None)
    if done.returncode or "<svg" not in done.stdout:
        raise StitchError(f"Graphviz failed: {done.stderr.strip()[:500]}")
    return ET.fromstring(done.stdout)


def _graphviz(program: str, source: str, seconds: float | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, "-Tsvg"], input=source, text=True, capture_output=True, timeout=seconds)


def _size(svg: ET.Element) -> tuple[float, float]:
    """Width and height in points."""
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    return width, height


def _put_inside(group: ET.Element, svg: ET.Element) -> None:
    """Adds a drawing to the box of its region, below the title."""
    xs, ys = zip(*_corners(group), strict=True)
    width, _ = _size(svg)
    drawing = svg.find(f"{SVG}g")
    assert drawing is not None
    left = (min(xs) + max(xs) - width) / 2
    ET.SubElement(group, f"{SVG}g", {"transform": f"translate({left} {min(ys) + _LABEL})"}).append(drawing)


def _corners(group: ET.Element) -> Iterator[tuple[float, float]]:
    """Of the box: rounded, so a path of curves, whose points all lie within it."""
    path = next(group.iter(f"{SVG}path"))
    numbers = path.attrib["d"].replace("M", " ").replace("C", " ").replace("L", " ").replace(",", " ").split()
    yield from zip(map(float, numbers[::2]), map(float, numbers[1::2]), strict=True)
