"""A report document as rows: for every op its region and kernels, or why it has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from explaining.load import Document

READ = "read in place by the region's kernels"
NO_KERNEL = "no kernel of its own: a view, a scalar, or equal to another"
_STITCHED = ("StitchOp", "StitchStateOp")


@dataclass(frozen=True)
class Kernel:
    """A kernel of a region. `measured_us` is None where nobody measured."""

    name: str
    rule: str
    rows: int
    cols: int
    ops: int
    schemes: dict[str, int]
    node_schemes: dict[str, str]
    predicted_us: float
    measured_us: float | None
    nbytes: int


@dataclass(frozen=True)
class Region:
    """A region as its last executable has it. `problem` says why there is none, or why it gave way."""

    number: int
    wrap: str
    ops: int
    kernels: tuple[Kernel, ...]
    executables: int
    runs: int
    fallbacks: int
    solver: dict[str, Any] | None
    measured_us: float | None
    problem: str | None


@dataclass(frozen=True)
class Op:
    """One TensorFlow node. `why` is None where a kernel computes it; `inputs` are places in the graph's list."""

    name: str
    op: str
    region: int | None
    kernels: tuple[Kernel, ...]
    why: str | None
    inputs: tuple[int, ...]

    @property
    def scheme(self) -> str:
        """How its value reaches other ops of its kernels."""
        found = (kernel.node_schemes.get(self.name) for kernel in self.kernels)
        return "+".join(dict.fromkeys(scheme for scheme in found if scheme))


@dataclass(frozen=True)
class Graph:
    """A graph as TensorFlow offered it, and the regions found in it."""

    name: str
    device: str
    ops: tuple[Op, ...]
    regions: tuple[Region, ...]


def graphs(document: Document) -> Iterator[Graph]:
    """The document's graphs. TensorFlow offers a graph again after its rewrite, which tells nothing new: left out."""
    kernels = _kernels(document)
    regions = {entry["id"]: _region(document, entry, [k for k, _ in kernels.get(entry["id"], [])])
               for entry in document["regions"]}  # fmt: skip
    by_node = {(number, node): [k for k, nodes in pairs if node in nodes]
               for number, pairs in kernels.items() for node in {n for _, nodes in pairs for n in nodes}}  # fmt: skip
    seen: dict[str, set[str]] = {}
    for graph in document["graphs"]:
        own = {node["name"] for node in graph["nodes"] if node["op"] not in _STITCHED}
        known = seen.setdefault(graph["graph"], set())
        if not graph["stitched_nodes"] and known and (own <= known or len(own) < len(graph["nodes"])):
            continue
        known |= own
        ops = tuple(_op(node, regions, by_node) for node in graph["nodes"])
        yield Graph(graph["graph"], graph["device"], ops, tuple(regions[number] for number in graph["regions"]))


def _op(node: dict[str, Any], regions: dict[int, Region], by_node: dict[tuple[int, str], list[Kernel]]) -> Op:
    number, why = node["region"], node["reason"]
    kernels = tuple(by_node.get((number, node["name"]), ()))
    if number is not None and not kernels:
        region = regions[number]
        why = READ if node["op"] == "ReadVariableOp" else NO_KERNEL
        if region.problem and not region.kernels:
            why = region.problem
    return Op(node["name"], node["op"], number, kernels, why, tuple(node["inputs"]))


def _kernels(document: Document) -> dict[int, list[tuple[Kernel, frozenset[str]]]]:
    """Kernels of each region's last executable, with the nodes each computes."""
    last: dict[int, int] = {}
    for entry in document["kernels"]:
        last[entry["region"]] = max(entry["build"], last.get(entry["region"], 0))
    found: dict[int, list[tuple[Kernel, frozenset[str]]]] = {}
    for entry in document["kernels"]:
        if entry["build"] == last[entry["region"]]:
            mine = found.setdefault(entry["region"], [])
            rows, cols = entry["domain"]
            kernel = Kernel(f"{entry['region']}.{len(mine)}", entry["rule"], rows, cols, len(entry["nodes"]),
                            entry["schemes"], entry["node_schemes"], entry["predicted_us"], entry.get("measured_us"),
                            entry["bytes"])  # fmt: skip
            mine.append((kernel, frozenset(entry["nodes"])))
    return found


def _region(document: Document, entry: dict[str, Any], kernels: list[Kernel]) -> Region:
    number = entry["id"]
    builds = [build for build in document["builds"] if build["region"] == number]
    troubles = [f"{f['stage']}: {f['reason']}" for f in document["fallbacks"]
                if f["where"].partition(" (")[0] == f"region {number}"]  # fmt: skip
    problem = "; ".join(troubles) or (None if builds else "has not run, so no kernels were built")
    return Region(number, entry["wrap"], len(entry["nodes"]), tuple(kernels), entry["executables"], entry["runs"],
                  entry["fallbacks"], builds[-1]["solver"] if builds else None, entry.get("measured_us"), problem)
