"""The graphs as one HTML page that needs nothing else: zoomable, regions coloured, searchable.

Cytoscape.js draws and dagre places, in the browser: regions are boxes until they are opened, which keeps graphs of
thousands of nodes usable.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tf_stitch.cli.explain.memory import RegionMemory, memory_section
from tf_stitch.cli.explain.rows import LIBRARY, Graph, Kernel, Op, Region
from tf_stitch.cli.explain.text import kernel_line, micros, region_facts, times
from tf_stitch.errors import StitchError

_ASSETS = Path(__file__).parent
_PARTS = {"STYLE": "page.css", "CYTOSCAPE": "vendor/cytoscape.min.js", "DAGRE": "vendor/dagre.min.js",
          "LAYOUT": "layout.js", "SEARCH": "search.js", "SCRIPT": "page.js"}  # fmt: skip


def write_page(graphs: Sequence[Graph], path: Path, memories: Sequence[RegionMemory] = ()) -> None:
    """Draws the graphs that have regions; where none has, all. And the memory of regions over a step.

    Raises:
        StitchError: there is no graph, or the file cannot be written.
    """
    drawn = [graph for graph in graphs if graph.regions] or list(graphs)
    if not drawn:
        raise StitchError("there is no graph to draw")
    data = json.dumps([_graph(graph) for graph in drawn], separators=(",", ":")).replace("<", "\\u003c")
    page = (_ASSETS / "page.html").read_text()
    for name, file in _PARTS.items():
        page = page.replace(f"@{name}@", (_ASSETS / file).read_text(), 1)
    page = page.replace("@MEMORY@", memory_section(memories), 1)
    try:
        path.write_text(page.replace("@DATA@", data, 1))
    except OSError as error:
        raise StitchError(f"{path} cannot be written: {error}") from None


def _graph(graph: Graph) -> dict[str, Any]:
    return {"name": graph.name, "ops": [_op(op) for op in graph.ops],
            "regions": [_region(region) for region in graph.regions],
            "kernels": {k.name: _kernel(k, region) for region in graph.regions for k in region.kernels}}  # fmt: skip


def _op(op: Op) -> dict[str, Any]:
    return {"name": op.name, "op": op.op, "region": op.region, "kernels": [k.name for k in op.kernels],
            "scheme": op.scheme, "why": op.why, "inputs": op.inputs, "source": op.source}  # fmt: skip


def _kernel(kernel: Kernel, region: Region) -> dict[str, Any]:
    edges: dict[str, dict[str, str]] = {}
    for (producer, user), (scheme, _) in kernel.edges.items():
        edges.setdefault(producer, {})[user] = scheme
    return {"text": kernel_line(kernel), "edges": edges, "schemes": kernel.node_schemes, "ops": kernel.ops,
            "region": region.number, "title": f"{kernel.rule} {kernel.rows} x {kernel.cols}, {kernel.ops} ops",
            "time": times(kernel)}  # fmt: skip


def _region(region: Region) -> dict[str, Any]:
    calls = sum(kernel.rule == LIBRARY for kernel in region.kernels)
    measured = "" if region.measured_us is None else f", {micros(region.measured_us)} measured"
    return {"number": region.number, "ops": region.ops, "kernels": len(region.kernels) - calls, "calls": calls,
            "kernelNames": [k.name for k in region.kernels],
            "time": f"{micros(region.predicted_us)} predicted{measured}",
            "about": [*region_facts(region), *([region.problem] if region.problem else [])]}  # fmt: skip
