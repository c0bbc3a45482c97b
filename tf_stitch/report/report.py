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
from tf_stitch.report.entries import BuildEntry, GraphEntry, GuardEntry, KernelEntry, RegionEntry, TuneEntry

SOURCES = "sources"
"""Folder of the kernels' sources, beside report.json."""


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

    def add(self, entry: GraphEntry | RegionEntry | KernelEntry | BuildEntry | GuardEntry | TuneEntry) -> None:
        lists: dict[type, Any] = {GraphEntry: self.graphs, RegionEntry: self.regions, KernelEntry: self._kernels,
                                  BuildEntry: self._builds, GuardEntry: self.guard, TuneEntry: self.tuned}
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

    def document(self, region_counts: Callable[[int], tuple[int, int, int, int]] | None) -> dict[str, Any]:
        """report.json as a dict.

        Args:
            region_counts: region -> (runs, fallbacks, original runs, shadow runs) of the native op.
        """
        self._make()
        with self._lock:
            if region_counts is not None:
                for region in self.regions:
                    if region.wrap == "native":
                        (region.runs, region.fallbacks, region.original_runs,
                         region.shadow_runs) = region_counts(region.id)
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
