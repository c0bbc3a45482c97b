"""What tf_stitch did, for the user: counted while it happens, written once as report.json and one line on stderr."""

from __future__ import annotations

import contextlib
import itertools
import json
import platform
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tf_stitch.atomic_file import write_atomically
from tf_stitch.errors import is_of_empty_tensor
from tf_stitch.messages import counted, log, say
from tf_stitch.report.entries import (
    BuildEntry,
    GraphEntry,
    KernelEntry,
    ProfitabilityEntry,
    RegionEntry,
    StepEntry,
    TuneEntry,
)
from tf_stitch.report.verdict import RegionsTime, regions_time, said_of_steps, why_no_kernel, why_nothing
from tf_stitch.shared_folder import opened
from tf_stitch.version import __version__

REPORT = "report.json"
SOURCES = "sources"
"""Folder of the kernels' sources, beside report.json."""
EARLIER = "earlier"
"""Folder of the reports of earlier runs, each in one of its own."""

MOST_GONE = 100
"""Graphs that are gone whose entries are kept for a report, the latest."""
FEW_PLAIN = 4
"""Graphs without regions whose entries are kept at least."""
MOST_COUNTED = 1000
"""Different fallbacks, and remarks, that are counted each by itself."""
OTHERS = "others"


@dataclass
class Dropped:
    """What the report does not hold any more: numbers of entries, summed over graphs that were dropped for good."""

    graphs: int = 0
    nodes: int = 0
    stitched_nodes: int = 0
    regions: int = 0
    kernels: int = 0
    given_back: int = 0
    work: int = 0
    stitched_work: int = 0


@dataclass
class Report:
    """Collects entries from any thread.

    Of graphs that TensorFlow has freed, or in which nothing was stitched, it keeps the latest.

    Attributes:
        most_gone: how many of each.
        dropped: of those it does not hold any more.
        steps: of functions that the program called, as far as that is known when the report is made.
        caches: "kernels" and "plans" -> artefacts on disk found, not found, and found damaged.
    """

    most_gone: int = MOST_GONE
    dropped: Dropped = field(default_factory=Dropped)
    graphs: list[GraphEntry] = field(default_factory=list)
    regions: list[RegionEntry] = field(default_factory=list)
    profitability: list[ProfitabilityEntry] = field(default_factory=list)
    tuned: list[TuneEntry] = field(default_factory=list)
    steps: list[StepEntry] = field(default_factory=list)
    caches: dict[str, dict[str, int]] = field(default_factory=dict)
    _kernels: list[KernelEntry] = field(default_factory=list)
    _builds: list[BuildEntry] = field(default_factory=list)
    _later: list[tuple[int, int, Callable[[], Iterable[BuildEntry | KernelEntry]]]] = field(default_factory=list)
    _gone: deque[frozenset[int]] = field(default_factory=deque)
    _sources: dict[str, str] = field(default_factory=dict)
    _fallbacks: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _remarks: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _longest: RegionsTime | None = None  # of dropped graphs the one that took longest
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _said: set[str] = field(default_factory=set)

    def add(self, entry: GraphEntry | RegionEntry | KernelEntry | BuildEntry | ProfitabilityEntry | TuneEntry) -> None:
        lists: dict[type, Any] = {GraphEntry: self.graphs, RegionEntry: self.regions, KernelEntry: self._kernels,
                                  BuildEntry: self._builds, ProfitabilityEntry: self.profitability,
                                  TuneEntry: self.tuned}
        with self._lock:
            lists[type(entry)].append(entry)
            if isinstance(entry, GraphEntry) and not entry.regions:
                self._drop_plain_graphs()

    def add_later(self, region: int, kernels: int, entries: Callable[[], Iterable[BuildEntry | KernelEntry]]) -> None:
        """Adds what `entries` gives of a region and its kernels as soon as somebody asks: no run should wait for
        its report."""
        with self._lock:
            self._later.append((region, kernels, entries))

    def regions_of(self, numbers: Iterable[int]) -> list[RegionEntry]:
        """Entries of these regions."""
        wanted = frozenset(numbers)
        with self._lock:
            return [entry for entry in self.regions if entry.id in wanted]

    @property
    def regions_seen(self) -> int:
        """All regions so far."""
        return self.dropped.regions + len(self.regions)

    def end(self, regions: Iterable[int]) -> None:
        """A graph with these regions is gone: the entries of one that went before it may go."""
        with self._lock:
            self._gone.append(frozenset(regions))
            while len(self._gone) > self.most_gone:
                self._drop(self._gone.popleft())

    def _drop(self, regions: frozenset[int]) -> None:
        """Takes out the entries of regions, and of their graph. The lock is held."""
        graphs = [g for g in self.graphs if not regions.isdisjoint(g.regions)]
        self._longest = self._longest_regions(graphs)
        self._count_dropped(graphs)
        self.dropped.regions += len(regions)
        self.dropped.given_back += len({g.region for g in self.profitability
                                        if g.region in regions and g.chosen == "fallback"})
        self.dropped.kernels += sum(kernel.region in regions for kernel in self._kernels)
        self.dropped.kernels += sum(kernels for region, kernels, _ in self._later if region in regions)
        self.graphs[:] = [g for g in self.graphs if regions.isdisjoint(g.regions)]
        self.regions[:] = [r for r in self.regions if r.id not in regions]
        self._kernels[:] = [k for k in self._kernels if k.region not in regions]
        self._builds[:] = [b for b in self._builds if b.region not in regions]
        self.profitability[:] = [g for g in self.profitability if g.region not in regions]
        self._later[:] = [later for later in self._later if later[0] not in regions]
        stems = tuple(f"region_{number}_" for number in regions)
        self._sources = {name: text for name, text in self._sources.items() if not name.startswith(stems)}

    def _drop_plain_graphs(self) -> None:
        """Takes out the oldest graphs that have no regions. The lock is held."""
        plain, most = [g for g in self.graphs if not g.regions], max(self.most_gone, FEW_PLAIN)
        if len(plain) <= 2 * most:
            return
        gone = {id(g) for g in plain[:len(plain) - most]}
        self._count_dropped([g for g in plain if id(g) in gone])
        self.graphs[:] = [g for g in self.graphs if id(g) not in gone]

    def _count_dropped(self, graphs: Sequence[GraphEntry]) -> None:
        self.dropped.graphs += len(graphs)
        self.dropped.nodes += sum(len(g.nodes) for g in graphs)
        self.dropped.stitched_nodes += sum(g.stitched_nodes for g in graphs)
        stitched, work = _work(graphs)
        self.dropped.stitched_work += stitched
        self.dropped.work += work

    def _longest_regions(self, graphs: Iterable[GraphEntry]) -> RegionsTime | None:
        """Of these graphs and those that were dropped. The lock is held."""
        times = [self._longest, *(regions_time(g, self.regions, self.profitability) for g in graphs if g.regions)]
        return max((time for time in times if time is not None), key=lambda time: time.weight, default=None)

    @property
    def fallbacks(self) -> Counter[tuple[str, str, str]]:
        """How often what went wrong so far: stage, where, reason."""
        with self._lock:
            return self._fallbacks.copy()

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
        for _, _, entries in later:
            for entry in entries():
                self.add(entry)

    def fallback(self, stage: str, where: str, reason: str, instead: str = "TensorFlow's own ops run instead") -> None:
        """Counts something that had to be done another way, and says it on stderr the first time.

        An empty tensor is a remark: TensorFlow's own ops have nothing to compute either."""
        self.note(stage, where, reason)
        subject = "empty tensors" if is_of_empty_tensor(reason) else reason
        with self._lock:
            first = subject not in self._said and len(self._said) < MOST_COUNTED
            if first:
                self._said.add(subject)
        log("fallback", f"{stage}: {where}: {reason}")
        if first:
            say(f"{stage}: {where}: {reason}; {instead}")

    def add_source(self, name: str, text: str) -> None:
        """Keeps the source of kernels for `sources`."""
        with self._lock:
            self._sources[name] = text

    def sources(self) -> dict[str, str]:
        """Sources of the kernels by file name, for whoever wants to time them."""
        with self._lock:
            return dict(self._sources)

    def note(self, stage: str, where: str, reason: str, times: int = 1) -> None:
        """Counts something that tf_stitch could not do, or an empty tensor among the remarks."""
        with self._lock:
            _count(self._remarks if is_of_empty_tensor(reason) else self._fallbacks, (stage, where, reason), times)

    def remark(self, stage: str, where: str, text: str) -> None:
        """Counts something that works, but not as well as it could."""
        with self._lock:
            _count(self._remarks, (stage, where, text))

    def document(self) -> dict[str, Any]:
        """report.json as a dict."""
        self._make()
        with self._lock:
            return {"tf_stitch": __version__, "python": platform.python_version(), "time": time.strftime("%FT%T%z"),
                    "steps": [asdict(s) for s in self.steps],
                    "graphs": [asdict(g) for g in self.graphs], "regions": [asdict(r) for r in self.regions],
                    "kernels": [asdict(k) for k in self._kernels], "builds": [asdict(b) for b in self._builds],
                    "profitability": [asdict(g) for g in self.profitability], "tuned": [asdict(t) for t in self.tuned],
                    "caches": self.caches, "dropped": asdict(self.dropped),
                    "fallbacks": _counted(self._fallbacks), "remarks": _counted(self._remarks)}

    def status_line(self, why_untimed: str = "", not_yet: str = "") -> str:
        """What was done and gained, in a line.

        Args:
            why_untimed: why no region may have been timed against TensorFlow's ops, if not for a lack of calls.
            not_yet: what was to be stitched later.
        """
        self._make()
        with self._lock:
            gone = self.dropped
            stitched, work = _work(self.graphs)
            if not self.regions_seen:
                graphs = [g for g in self.graphs if not g.again]
                why = why_nothing(graphs) if graphs or not not_yet else ""
                said = "nothing was stitched: " + "; ".join(filter(None, (why, not_yet)))
            else:
                kernels = gone.kernels + len(self._kernels)
                given_back = gone.given_back + len({g.region for g in self.profitability if g.chosen == "fallback"})
                said = (f"{self._said_of_time(why_untimed)}; {counted(self.regions_seen, 'region')}, "
                        f"{counted(kernels, 'kernel')} for {gone.stitched_work + stitched} of "
                        f"{counted(gone.work + work, 'op')}"
                        + ("" if kernels else f" ({not_yet or self._why_no_kernel()})")
                        + (f", {given_back} gave way" if given_back else "")
                        + (f"; {not_yet}" if not_yet and kernels else ""))
            fallbacks = sum(self._fallbacks.values())
            return said + (f"; {counted(fallbacks, 'fallback')}" if fallbacks else "")

    def _said_of_time(self, why_untimed: str) -> str:
        """What was gained. The lock is held."""
        sessions = any(graph.is_of_session and graph.regions for graph in self.graphs)
        said = why_untimed or said_of_steps(self.steps, sessions)
        if why_untimed or any(not step.why_not for step in self.steps):
            return said
        return f"{said}; {self._longest_regions(self.graphs) or self._why_untimed()}"

    def _why_no_kernel(self) -> str:
        runs = sum(r.runs + r.fallbacks + r.preferred_fallback_runs for r in self.regions)
        return why_no_kernel(runs, self._fallbacks, self._remarks)

    def _why_untimed(self) -> str:
        """What the profitability check remarked first, if it did: calls were no lack then."""
        said = (text for stage, _, text in self._remarks if stage == "profitability" and text.startswith("not timed"))
        return next(said, "no region was called often enough to be timed")


def _work(graphs: Iterable[GraphEntry]) -> tuple[int, int]:
    """Working nodes that are stitched, and all: of graphs as they first come, without constants and the like."""
    first = [g for g in graphs if not g.again]
    stitched = sum(g.stitched_work for g in first)
    return stitched, stitched + sum(sum(g.left_out.values()) for g in first)


def _count(entries: Counter[tuple[str, str, str]], entry: tuple[str, str, str], times: int = 1) -> None:
    """Counts an entry; one more than can be told apart under its stage alone."""
    if entry not in entries and len(entries) >= MOST_COUNTED:
        entry = (entry[0], OTHERS, f"more than {MOST_COUNTED} different ones")
    entries[entry] += times


def _counted(entries: Counter[tuple[str, str, str]]) -> list[dict[str, Any]]:
    return [{"stage": s, "where": w, "reason": r, "count": c} for (s, w, r), c in entries.items()]


def try_folder(folder: Path) -> None:
    """Says at start, not after hours, that there will be no report."""
    try:
        with opened(folder, links=True) as place, tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        say(f"TF_STITCH_REPORT cannot be written, there will be no report: {error}")


def set_aside(folder: Path) -> None:
    """Moves the report of an earlier run into `folder`/earlier, with its sources.

    Raises:
        OSError: the folder cannot be written.
    """
    with contextlib.suppress(FileNotFoundError), opened(folder, links=True) as place:
        path = place / REPORT  # there is none, or another process that ends now has moved it: nothing to do
        when = time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime(path.lstat().st_mtime))
        with opened(place / EARLIER) as earlier:
            aside = earlier / when
            number = itertools.count(2)
            while aside.exists():
                aside = earlier / f"{when}_{next(number)}"
            aside.mkdir()
            path.rename(aside / path.name)
            (place / SOURCES).rename(aside / SOURCES)


def write_report(document: dict[str, Any], folder: Path, sources: Mapping[str, str],
                 name: str = REPORT) -> Path:
    """Writes sources/ and a report into `folder`; the report whole or not at all.

    Raises:
        OSError: the folder cannot be written.
    """
    with opened(folder, links=True) as place:
        with opened(place / SOURCES) as beside:
            for source, text in sources.items():
                write_atomically(beside / source, text.encode(), 0o644, durable=False)
        write_atomically(place / name, json.dumps(document, indent=1).encode(), 0o644)
    return folder / name
