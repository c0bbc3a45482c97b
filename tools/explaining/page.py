"""The graphs as one HTML page that needs nothing else: drawn by Graphviz, regions coloured, searchable."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree as ET

from explaining.drawing import colour, draw
from explaining.rows import Graph, Op, Region
from explaining.text import times
from tf_stitch.errors import StitchError

_ASSETS = Path(__file__).parent


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
             "DRAWINGS": "\n".join(_svg(draw(graph, i)) for i, graph in enumerate(drawn))}  # fmt: skip
    for name, text in parts.items():
        page = page.replace(f"@{name}@", text, 1)
    try:
        path.write_text(page)
    except OSError as error:
        raise StitchError(f"{path} cannot be written: {error}") from None


def _svg(element: ET.Element) -> str:
    text: str = ET.tostring(element, encoding="unicode")
    return text.replace("ns0:", "").replace(":ns0", "")


def _op(op: Op) -> dict[str, object]:
    kernels = [f"{k.name} {k.rule} {k.rows} x {k.cols}, {times(k)}, {k.nbytes} bytes" for k in op.kernels]
    return {"name": op.name, "op": op.op, "region": op.region, "kernels": kernels, "scheme": op.scheme, "why": op.why}


def _region(region: Region) -> dict[str, object]:
    predicted = sum(k.predicted_us for k in region.kernels)
    hue, saturation, value = colour(region.number)
    lightness = value * (1 - saturation / 2)
    chroma = (value - lightness) / min(lightness, 1 - lightness)
    about = {k: v for k, v in asdict(region).items() if k in ("number", "wrap", "ops", "runs", "problem")}
    return about | {"colour": f"hsl({hue * 360:.0f} {chroma:.0%} {lightness:.0%})", "kernels": len(region.kernels),
                    "predicted": round(predicted, 1), "measured": region.measured_us,
                    "plan": region.solver["status"] if region.solver else None}  # fmt: skip
