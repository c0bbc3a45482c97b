"""The graphs as one HTML page that needs nothing else: zoomable, regions coloured, searchable.

Cytoscape.js draws and dagre places, in the browser: regions are boxes until they are opened, which keeps graphs of
thousands of nodes usable.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tf_stitch.cli.explain.layers import Layers
from tf_stitch.cli.explain.memory import RegionMemory, memory_section
from tf_stitch.cli.explain.rows import LIBRARY, Graph, Kernel, Op, Region
from tf_stitch.cli.explain.text import kernel_line, micros, region_facts, times
from tf_stitch.errors import StitchError
from tf_stitch.messages import counted

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
    layers = Layers(op.name for op in graph.ops)
    members: dict[str, list[str]] = {}
    for op in graph.ops:
        for kernel in op.kernels:
            members.setdefault(kernel.name, []).append(op.name)
    return {"name": graph.name, "ops": [_op(op) for op in graph.ops],
            "regions": [_region(region, layers.of_all(
                [name for kernel in region.kernels for name in members.get(kernel.name, [])]))
                for region in graph.regions],
            "kernels": {k.name: _kernel(k, region, layers.of_all(members.get(k.name, [])))
                        for region in graph.regions for k in region.kernels}}  # fmt: skip


def _op(op: Op) -> dict[str, Any]:
    return {"name": op.name, "op": op.op, "region": op.region, "kernels": [k.name for k in op.kernels],
            "scheme": op.scheme, "why": op.why, "inputs": op.inputs, "source": op.source}  # fmt: skip


def _kernel(kernel: Kernel, region: Region, layers: str) -> dict[str, Any]:
    edges: dict[str, dict[str, str]] = {}
    for (producer, user), (scheme, _) in kernel.edges.items():
        edges.setdefault(producer, {})[user] = scheme
    title = f"{kernel.rule} {kernel.rows} x {kernel.cols}, {counted(kernel.ops, 'op')}"
    return {"text": kernel_line(kernel), "edges": edges, "schemes": kernel.node_schemes, "ops": kernel.ops,
            "region": region.number, "title": title,
            "layers": layers, "total": kernel.now_us * max(region.runs, 1), "time": times(kernel)}  # fmt: skip


def _region(region: Region, layers: str) -> dict[str, Any]:
    calls = sum(kernel.rule == LIBRARY for kernel in region.kernels)
    return {"number": region.number, "ops": region.ops, "kernels": len(region.kernels) - calls, "calls": calls,
            "kernelNames": [k.name for k in region.kernels], "layers": layers, "total": region.total_us,
            "time": _times_of_region(region),
            "about": [*region_facts(region), *([region.problem] if region.problem else [])]}  # fmt: skip


def _times_of_region(region: Region) -> str:
    """Measured, predicted, and what TensorFlow's ops take; a loop as a whole has no prediction of its own."""
    measured = region.measured_us if region.check is None else region.check.stitched_us
    found = {"predicted": region.predicted_us if region.kernels else None, "measured": measured,
             "by TensorFlow's ops": None if region.check is None else region.check.plain_us}
    return ", ".join(f"{micros(time)} {what}" for what, time in found.items() if time is not None)
