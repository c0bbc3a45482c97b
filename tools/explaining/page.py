"""The graphs as one HTML page that needs nothing else: drawn by Graphviz, coloured by region, searchable by node name."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from explaining.rows import Graph, Op, Region
from explaining.text import times
from tf_stitch.errors import StitchError

_ASSETS = Path(__file__).parent
LAYERED_SECONDS = 120
"""Layers show the flow best, but may take long; a layout by forces then takes their place."""
_FASTER = "nslimit=2; nslimit1=2; mclimit=0.5; splines=line; "


def write_page(graphs: Sequence[Graph], path: Path) -> None:
    """Draws the graphs that have regions; where none has, all.

    Raises:
        StitchError: there is no graph, Graphviz is missing, or the file cannot be written.
    """
    drawn = [graph for graph in graphs if graph.regions] or list(graphs)
    if not drawn:
        raise StitchError("there is no graph to draw")
    data = [{"name": graph.name, "ops": [_op(op) for op in graph.ops],
             "regions": [_region(region) for region in graph.regions]} for graph in drawn]  # fmt: skip
    page = (_ASSETS / "page.html").read_text()
    parts = {"STYLE": (_ASSETS / "page.css").read_text(), "SCRIPT": (_ASSETS / "page.js").read_text(),
             "DATA": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
             "DRAWINGS": "\n".join(draw(dot_source(graph, i)) for i, graph in enumerate(drawn))}  # fmt: skip
    for name, text in parts.items():
        page = page.replace(f"@{name}@", text, 1)
    try:
        path.write_text(page)
    except OSError as error:
        raise StitchError(f"{path} cannot be written: {error}") from None


def colour(region: int) -> str:
    """Hue, saturation, value: neighbours in number are far apart in hue."""
    return f"{region * 0.618 % 1:.3f} 0.30 0.96"


def dot_source(graph: Graph, number: int) -> str:
    """The graph in Graphviz's language. Element ids are g<number>n<place> of ops and g<number>r<region> of regions."""
    return "\n".join(["digraph {", f'  {_FASTER} id="g{number}"; node [shape=box, fontname=Helvetica, fontsize=10, '
                      'height=0.25, margin="0.08,0.03", style="filled", fillcolor=white]; edge [arrowsize=0.5, '
                      'color="#00000060"];', *_members(graph, number), *_edges(graph), "}"])  # fmt: skip


def _members(graph: Graph, number: int) -> Iterator[str]:
    inside: dict[int | None, list[int]] = {}
    for place, op in enumerate(graph.ops):
        inside.setdefault(op.region, []).append(place)
    for region in graph.regions:
        cost = f", {sum(k.predicted_us for k in region.kernels):.0f} us" if region.kernels else ""
        yield (f'  subgraph cluster_{region.number} {{ id="g{number}r{region.number}"; label="region {region.number}{cost}";'
               ' fontname=Helvetica; fontsize=12; style=rounded; color="#00000050"; bgcolor="#0000000a";')  # fmt: skip
        yield from (_node(graph.ops[place], place, number) for place in inside.pop(region.number, []))
        yield "  }"
    for places in inside.values():
        yield from (_node(graph.ops[place], place, number) for place in places)


def _node(op: Op, place: int, number: int) -> str:
    style = 'style="filled,dashed", color="#777777"' if op.region is None else f'fillcolor="{colour(op.region)}"'
    if op.op == "Const":
        style += ', shape=ellipse, fontsize=7, height=0.15, fontcolor="#777777"'
    tip = html.escape(op.name)
    return f'  n{place} [id="g{number}n{place}", label="{html.escape(op.op)}", tooltip="{tip}", {style}];'


def _edges(graph: Graph) -> Iterator[str]:
    for place, op in enumerate(graph.ops):
        yield from (f"  n{before} -> n{place};" for before in op.inputs)


def draw(source: str) -> str:
    """The SVG element of a graph.

    Raises:
        StitchError: Graphviz is not installed, or failed.
    """
    if shutil.which("dot") is None:
        raise StitchError("the page is drawn by Graphviz, which is not installed: apt-get install graphviz")
    try:
        svg = _graphviz("dot", source, LAYERED_SECONDS)
    except subprocess.TimeoutExpired:
        svg = _graphviz("sfdp", source, None)
    return svg[svg.index("<svg"):]


def _graphviz(program: str, source: str, seconds: float | None) -> str:
    done = subprocess.run([program, "-Tsvg"], input=source, text=True, capture_output=True, timeout=seconds)
    if done.returncode or "<svg" not in done.stdout:
        raise StitchError(f"{program} failed: {done.stderr.strip()[:500]}")
    return done.stdout


def _op(op: Op) -> dict[str, object]:
    kernels = [f"{k.name} {k.rule} {k.rows} x {k.cols}, {times(k)}, {k.nbytes} bytes" for k in op.kernels]
    return {"name": op.name, "op": op.op, "region": op.region, "kernels": kernels, "scheme": op.scheme, "why": op.why}


def _region(region: Region) -> dict[str, object]:
    predicted = sum(k.predicted_us for k in region.kernels)
    hue, saturation, value = map(float, colour(region.number).split())
    lightness = value * (1 - saturation / 2)
    chroma = (value - lightness) / min(lightness, 1 - lightness)
    about = {k: v for k, v in asdict(region).items() if k in ("number", "wrap", "ops", "runs", "problem")}
    return about | {"colour": f"hsl({hue * 360:.0f} {chroma:.0%} {lightness:.0%})", "kernels": len(region.kernels),
                    "predicted": round(predicted, 1), "measured": region.measured_us,
                    "plan": region.solver["status"] if region.solver else None}  # fmt: skip
