"""What tf_stitch did, for the user: counted while it happens, written once as report.json and one line on stderr."""

from __future__ import annotations

import json
import platform
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tf_stitch import __version__
from tf_stitch.atomic_file import write_atomically
from tf_stitch.planning.tuned_templates import TunedTemplate

SOURCES = "sources"
"""Folder of the kernels' sources, beside report.json."""


@dataclass
class NodeEntry:
    """One TensorFlow node of a graph: the region that holds it, or the reason why none does.

    Attributes:
        inputs: places in the graph's list of the nodes whose data it reads.
    """

    name: str
    op: str
    region: int | None
    reason: str | None
    inputs: list[int]


@dataclass(frozen=True)
class LoopEntry:
    """One while loop: how many copies of its body stand in its place, or why it is a loop still. Neither: it runs
    as one op, whose `regions` are the loop as a whole, its body and its condition; or its length is a size, and its
    region writes it out for each."""

    name: str
    steps: int | None
    reason: str | None
    regions: tuple[int, ...] = ()


@dataclass
class GraphEntry:
    """One graph the hook saw. `left_out` counts working nodes by the reason they stayed TensorFlow ops; `loops` is
    empty where loops are left alone."""

    graph: str
    device: str
    nodes: list[NodeEntry]
    stitched_nodes: int
    regions: list[int]
    left_out: dict[str, int]
    milliseconds: float
    loops: list[LoopEntry] = field(default_factory=list)


@dataclass
class CudaGraphs:
    """CUDA graphs of a region's executables.

    Attributes:
        graphs: made, one an executable.
        instances: made of them: one for each set of addresses, up to a few.
        making_us: microseconds that the host spent making both.
        launches: of instances; the runs before the first one went step by step.
        host_us: microseconds that the host spent for a launch, new addresses included; 0.0 without launches.
        known: launches of an instance that had all addresses already.
        known_us: microseconds that the host spent for one of these.
        updates: nodes that got new addresses.
        failures: executables whose steps are launched one by one because no graph could be made of them.
        error: why, the last time; "" if that never happened.
    """

    graphs: int
    instances: int
    making_us: float
    launches: int
    host_us: float
    known: int
    known_us: float
    updates: int
    failures: int
    error: str


@dataclass
class RegionEntry:
    """One region. `wrap` is "native" or "py_function"; the counts are filled in when the report is made.

    Attributes:
        runs: calls that ran its kernels; of a loop's body, iterations that did.
        fallbacks: calls that ran TensorFlow's ops because the kernels could not.
        original_runs: calls that ran TensorFlow's ops because they are faster, or to time them.
        executables: shape signatures it has run with.
        builds: times it waited for a compiler: once for its first sizes, once for all others.
        cuda_graphs: None on a CPU, and where it has not run.
    """

    id: int
    graph: str
    device: str
    wrap: str
    nodes: dict[str, str]  # TensorFlow node -> op
    inputs: int
    variables: int
    outputs: int
    executables: int = 0
    builds: int = 0
    runs: int = 0
    fallbacks: int = 0
    original_runs: int = 0
    cuda_graphs: CudaGraphs | None = None


@dataclass
class KernelEntry:
    """One kernel of one executable of a region, or one library call: its rule is "library", its symbol what it does.

    Attributes:
        build: which executable of the region, from 0.
        pattern: its number among kernels and library calls of more than one node, in TF_STITCH_FUEL's order, of several
            that were joined the first; None: it has one node.
        launch: symbol of the launch that runs it, alone or with others; one of its build's launches; "" for none.
        nodes: TensorFlow nodes whose values it computes.
        node_schemes: how it hands on the values of those nodes that it uses itself; of several the result's is last.
        schemes: how many values it hands on in each way.
        predicted_us: by the model; of a library call by measured times of products, where the device has them.
        measured_us: by execution, where an earlier process did that.
        bytes: of its parameters, each moved once, or twice where updated.
        scratch_bytes: of the arrays that one of its blocks works in.
        shared_bytes: of those, what is in a GPU's shared memory.
        requested_bytes: of these if every array had memory of its own (FusionStitching, Table 4: alloc/req is
            scratch_bytes / requested_bytes).
        registers, spilled_bytes: of a thread of its launch, by the compiler; None on a CPU.
        compositions: how it composes its ops (schedule/composition.py).
        template: its schedule as a template (schedule/templates.py).
        chosen_by: who chose that: "rule", "tuned" or "forced"; of joined kernels several with "+" between.
    """

    region: int
    build: int
    pattern: int | None
    device: str
    symbol: str
    launch: str
    rule: str
    domain: list[int]
    nodes: list[str]
    node_schemes: dict[str, str]
    schemes: dict[str, int]
    predicted_us: float
    measured_us: float | None
    bytes: int
    scratch_bytes: int
    shared_bytes: int
    requested_bytes: int = 0
    registers: int | None = None
    spilled_bytes: int | None = None
    compositions: list[str] = field(default_factory=list)
    template: str = ""
    chosen_by: str = "rule"


@dataclass
class LaunchEntry:
    """One launch: its symbol in the source, and how it is launched.

    Attributes:
        buffers: dtype, elements, and whether it is read, of every parameter.
        cooperative: its blocks wait for each other, at a counter that its last parameter points to.
        static_shared_bytes: what its reductions take beside `shared_bytes`, by the compiler.
    """

    symbol: str
    grid: int
    threads: int
    shared_bytes: int
    buffers: list[tuple[str, int, bool]]
    cooperative: bool = False
    static_shared_bytes: int = 0


@dataclass
class BuildEntry:
    """One executable: a region for one shape signature.

    Attributes:
        source: name of the kernels' file in sources/; None where no kernel is needed.
        arena_bytes: device memory for what one kernel hands to another.
        live_bytes: of that, what has to be there at one time: no arena for these kernels could be smaller.
        without_kernel: why no kernel is theirs -> TensorFlow nodes of the region.
    """

    region: int
    shapes: list[list[int]]
    cached: bool
    solver: dict[str, Any] | None
    seconds: dict[str, float]
    source: str | None
    launches: list[LaunchEntry]
    arena_bytes: int
    live_bytes: int
    without_kernel: dict[str, list[str]]


@dataclass
class GuardEntry:
    """A region timed against the TensorFlow ops it replaced, for one shape signature: medians, in microseconds.

    Attributes:
        chosen: what runs from then on, "stitched" or "original".
    """

    region: int
    device: str
    shapes: list[list[int]]
    stitched_us: float
    original_us: float
    chosen: str


@dataclass(frozen=True)
class TuneEntry(TunedTemplate):
    """Templates tried for one pattern, in the background.

    Attributes:
        kernel: what it computes, by the user's nodes.
        failed: templates that could not be built or timed.
        seconds: that it took.
    """

    kernel: str
    failed: int
    seconds: float


@dataclass
class Report:
    """Collects entries from any thread.

    Attributes:
        caches: "kernels" and "plans" -> artefacts on disk found, not found, and found damaged.
    """

    graphs: list[GraphEntry] = field(default_factory=list)
    regions: list[RegionEntry] = field(default_factory=list)
    guard: list[GuardEntry] = field(default_factory=list)
    tuned: list[TuneEntry] = field(default_factory=list)
    caches: dict[str, dict[str, int]] = field(default_factory=dict)
    _kernels: list[KernelEntry] = field(default_factory=list)
    _builds: list[BuildEntry] = field(default_factory=list)
    _later: list[Callable[[], Iterable[BuildEntry | KernelEntry]]] = field(default_factory=list)
    _sources: dict[str, str] = field(default_factory=dict)
    _fallbacks: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _remarks: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _said: set[str] = field(default_factory=set)

    def add(self, entry: GraphEntry | RegionEntry | KernelEntry | BuildEntry | GuardEntry | TuneEntry
            ) -> None:
        lists: dict[type, Any] = {GraphEntry: self.graphs, RegionEntry: self.regions, KernelEntry: self._kernels,
                                  BuildEntry: self._builds, GuardEntry: self.guard,
                                  TuneEntry: self.tuned}
        with self._lock:
            lists[type(entry)].append(entry)

    def add_later(self, entries: Callable[[], Iterable[BuildEntry | KernelEntry]]) -> None:
        """Adds what `entries` gives as soon as somebody asks: no run of a region should wait for its report."""
        with self._lock:
            self._later.append(entries)

    @property
    def kernels(self) -> list[KernelEntry]:
        self._make()
        return self._kernels

    @property
    def builds(self) -> list[BuildEntry]:
        self._make()
        return self._builds

    def _make(self) -> None:
        with self._lock:
            later, self._later = self._later, []
        for entries in later:
            for entry in entries():
                self.add(entry)

    def fallback(self, stage: str, where: str, reason: str, instead: str = "TensorFlow's own ops run instead") -> None:
        """Counts something that had to be done another way, and says it on stderr the first time."""
        self.note(stage, where, reason)
        with self._lock:
            first = reason not in self._said
            self._said.add(reason)
        if first:
            print(f"[tf_stitch] {stage}: {where}: {reason}; {instead}", file=sys.stderr)

    def add_source(self, name: str, text: str) -> None:
        """Keeps the source of kernels for `sources`."""
        with self._lock:
            self._sources[name] = text

    def sources(self) -> dict[str, str]:
        """Sources of the kernels by file name, for whoever wants to time them."""
        with self._lock:
            return dict(self._sources)

    def note(self, stage: str, where: str, reason: str, times: int = 1) -> None:
        """Counts something that tf_stitch could not do."""
        with self._lock:
            self._fallbacks[stage, where, reason] += times

    def remark(self, stage: str, where: str, text: str) -> None:
        """Counts something that works, but not as well as it could."""
        with self._lock:
            self._remarks[stage, where, text] += 1

    def document(self, region_counts: Callable[[int], tuple[int, int, int]] | None) -> dict[str, Any]:
        """report.json as a dict.

        Args:
            region_counts: region -> (runs, fallbacks, original runs) of the native op.
        """
        self._make()
        with self._lock:
            if region_counts is not None:
                for region in self.regions:
                    if region.wrap == "native":
                        region.runs, region.fallbacks, region.original_runs = region_counts(region.id)
            return {"tf_stitch": __version__, "python": platform.python_version(), "time": time.strftime("%FT%T%z"),
                    "graphs": [asdict(g) for g in self.graphs], "regions": [asdict(r) for r in self.regions],
                    "kernels": [asdict(k) for k in self._kernels], "builds": [asdict(b) for b in self._builds],
                    "guard": [asdict(g) for g in self.guard], "tuned": [asdict(t) for t in self.tuned],
                    "caches": self.caches,
                    "fallbacks": _counted(self._fallbacks), "remarks": _counted(self._remarks)}

    def status_line(self, kept: bool) -> str:
        """What was done, in a line.

        Args:
            kept: report.json is written, and holds the remarks.
        """
        self._make()
        with self._lock:
            nodes = sum(len(g.nodes) for g in self.graphs)
            stitched = sum(g.stitched_nodes for g in self.graphs)
            launches, host = self._graph_launches()
            given_back = len({g.region for g in self.guard if g.chosen == "original"})
            remarks = sum(self._remarks.values())
            return (f"[tf_stitch] {len(self.graphs)} graphs, {stitched} of {nodes} nodes in {len(self.regions)} "
                    f"regions, {len(self._kernels)} kernels, {sum(self._fallbacks.values())} fallbacks"
                    + (f", {remarks} remarks{'' if kept else ' (TF_STITCH_REPORT keeps them)'}" if remarks else "")
                    + (f", {given_back} regions faster as TensorFlow's ops" if given_back else "")
                    + (f", {launches} CUDA graph launches of {host / launches:.1f} us" if launches else ""))

    def _graph_launches(self) -> tuple[int, float]:
        """Launches of CUDA graphs, and microseconds of the host for all of them."""
        found = [region.cuda_graphs for region in self.regions if region.cuda_graphs is not None]
        return sum(g.launches for g in found), sum(g.launches * g.host_us for g in found)


def _counted(entries: Counter[tuple[str, str, str]]) -> list[dict[str, Any]]:
    return [{"stage": s, "where": w, "reason": r, "count": c} for (s, w, r), c in entries.items()]


def write_report(document: dict[str, Any], folder: Path, sources: Mapping[str, str],
                 name: str = "report.json") -> Path:
    """Writes sources/ and a report into `folder`; the report whole or not at all.

    Raises:
        OSError: the folder cannot be written.
    """
    (folder / SOURCES).mkdir(parents=True, exist_ok=True)
    for source, text in sources.items():
        (folder / SOURCES / source).write_text(text)
    path = folder / name
    write_atomically(path, json.dumps(document, indent=1).encode(), 0o644)
    return path
