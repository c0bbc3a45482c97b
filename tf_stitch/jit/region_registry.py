"""Regions of this process: registered when a graph is rewritten, compiled when shapes are known."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import nullcontext
from dataclasses import replace
from weakref import WeakValueDictionary

from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.compiler_run import is_beside_the_program
from tf_stitch.config import StitchConfig
from tf_stitch.errors import BuildPending, StitchError
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.ir.canonical_symbols import with_canonical_symbols
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.jit.build_budget import BuildBudget
from tf_stitch.jit.build_key import Key
from tf_stitch.jit.collector import collector_paused
from tf_stitch.jit.fallback_memory import FallbackMemory
from tf_stitch.jit.libraries import NoOptionalCalls, OptionalCalls
from tf_stitch.jit.load_ahead import LoadAhead, load
from tf_stitch.jit.memory_shortage import smaller_build
from tf_stitch.jit.pattern_fuel import PatternFuel
from tf_stitch.jit.placed_region import PlacedRegion
from tf_stitch.jit.prebuild import Prebuilder, Traits
from tf_stitch.jit.region_builder import CPU_ORDINAL, Built, RegionBuilder
from tf_stitch.jit.shape_family import ShapeFamily
from tf_stitch.jit.tuner import Job, Tuner
from tf_stitch.kernel_ir import index
from tf_stitch.messages import Activity, log, say
from tf_stitch.native.build import native_cache
from tf_stitch.placement.step_labels import step_labels
from tf_stitch.planning.measured_cost import measurement_key
from tf_stitch.report.build_entries import Place, build_entries, names_of, tune_entry
from tf_stitch.report.dump import Dump
from tf_stitch.report.entries import BuildEntry, KernelEntry
from tf_stitch.report.report import Report
from tf_stitch.runtime.device_query import cpu_count
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.targets.registry import target_of

MOST_BUILDERS = 4
"""Threads that build regions ahead. Planning holds Python's lock, so more of them gain little. Not measured: there were
fifteen in a program of many regions whose first step had not ended after 50 s."""


class RegionRegistry:
    """Thread-safe. Regions of equal structure and shapes share one build (F13).

    Args:
        load_ahead: loads an executable on a GPU, as native.bindings.OpLibrary does.
    """

    def __init__(self, config: StitchConfig, report: Report, dump: Dump, optional: OptionalCalls | None = None,
                 load_ahead: LoadAhead = lambda *_: None) -> None:
        self._load_ahead = load_ahead
        self._config, self._report, self._dump = config, report, dump
        self._fuel = PatternFuel(config.fuel)
        self._regions: dict[int, RegionGraph] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._families: WeakValueDictionary[tuple[object, ...], ShapeFamily[Built]] = WeakValueDictionary()
        self._family_of: dict[int, set[ShapeFamily[Built]]] = {}  # what keeps those of each region
        self._pending: dict[tuple[int, int, Key], Future[tuple[Built, bool]]] = {}
        self._forms: dict[int, tuple[RegionGraph, str]] = {}  # each region with canonical symbols, and its text
        self._loops: dict[int, str] = {}
        self._executables: Counter[int] = Counter()
        self._recorded: dict[int, set[tuple[int, Key]]] = {}
        self._run: set[str] = set()
        self.memory = FallbackMemory(lambda number, key: self.bound(number, key.shapes))
        self._prebuilder = Prebuilder(self._prepare, min(cpu_count(), MOST_BUILDERS))
        self.cache = KernelCache(config.kernels_dir)
        self._plans = KernelCache(config.cache_dir / "plans")
        self.functions = KernelCache(config.cache_dir / "functions")
        self._builder = RegionBuilder(config, report, dump, self.cache, self._plans, self._prebuilder,
                                      optional or NoOptionalCalls())
        self._said = self.cache.problem
        if self._said:
            report.fallback("cache", str(config.cache_dir), self._said, "kernels are built anew in each process")
        self.activity = Activity(lambda: f"building kernels: {sum(n > 0 for n in self._executables.values())} of "
                                         f"{len(self._regions)} regions ready")
        self._tuner = Tuner(config.tune_seconds, self.cache, lambda why: report.note("tune", "a kernel", why),
                            lambda tuning, seconds: report.add(tune_entry(tuning, seconds)),
                            lambda names, record: report.remark("hfuse", names, record.text))

    def register(self, region: RegionGraph, group: int = -1) -> int:
        """The number that names the region in its op; regions of one graph have one `group`."""
        with self._lock:
            number = next(self._numbers)
            self._regions[number] = region
            self._family_of[number] = set()
            self._recorded[number] = set()
        if group >= 0 and not self._fuel.in_order:
            self._prebuilder.add(number, region, group)
        return number

    def close(self) -> None:
        """Drops background builds and measurements that have not started, and reports on the caches."""
        self._prebuilder.close()
        self._tuner.close()
        native = native_cache(self._config.cache_dir)
        self._report.caches = {"kernels": self.cache.counts(), "plans": self._plans.counts(), "native": native.counts()}
        for cache in (self.cache, self._plans, self.functions):
            if cache.problem and cache.problem != self._said:
                self._report.note("cache", str(cache.folder), cache.problem)

    def region(self, number: int) -> RegionGraph:
        """A region that was registered.

        Raises:
            StitchError: it was dropped.
        """
        region = self._regions.get(number)
        if region is None:
            raise StitchError(f"region {number} is gone: TensorFlow had freed all that ran it")
        return region

    def __contains__(self, number: int) -> bool:
        return number in self._regions

    def __len__(self) -> int:
        return len(self._regions)

    def drop(self, numbers: Collection[int]) -> None:
        """Frees what is kept for regions that will not run any more, but for what regions of equal structure share."""
        for number in numbers:
            self._prebuilder.drop(number)
            self._builder.drop(number)
            self.memory.drop(number)
        with self._lock:
            for number in numbers:
                for kept in (self._regions, self._family_of, self._recorded, self._forms, self._loops,
                             self._executables):
                    kept.pop(number, None)
            for waiting in [key for key in self._pending if key[0] in numbers]:
                del self._pending[waiting]
        index.forget()

    def describe(self, number: int, parts: Iterable[RegionGraph], roles: str) -> None:
        """Says what a loop consists of that runs as one op: its own graph does not."""
        texts = [self._builder.text(with_canonical_symbols(part.graph)) for part in parts]
        with self._lock:
            self._loops[number] = "\n".join([roles, *texts])

    def structure(self, number: int) -> str:
        """Text that is equal for regions which compute the same."""
        return self._loops.get(number) or self._form(number)[1]

    def executables(self, number: int) -> int:
        """Shape signatures built for a region so far."""
        return self._executables[number]

    def builds(self, number: int) -> int:
        """Builds of a region for sizes at hand so far (see RegionEntry)."""
        return self._builder.builds(number)

    def builds_behind(self, number: int) -> int:
        """Builds of a region for other sizes so far (see RegionEntry)."""
        return self._builder.builds_behind(number)

    def finish_builds(self, seconds: float) -> bool:
        """Waits for builds in the background. Whether there are none left."""
        return self._prebuilder.finish(seconds)

    def bound(self, number: int, shapes: Sequence[Sequence[int]]) -> TensorGraph:
        """The region with its symbols replaced by what the shapes of its inputs and variables say.

        Raises:
            BindError: the shapes contradict the region.
        """
        return PlacedRegion(number, self.region(number), CPU_ORDINAL, True).bound(shapes)

    def build(self, number: int, device: int, key: Key) -> Built:
        """The executable of a region for one signature, built once.

        Raises:
            StitchError: it cannot be built; the message says why.
        """
        self._prebuilder.runs(number, device, key.shapes, key.traits)
        built, known = self._find(number, device, key)
        self._record(number, device, key, built, known)
        return built

    def build_ahead(self, places: Mapping[int, int], tf32: bool) -> bool:
        """Builds regions side by side, those whose sizes are known before they run, and waits for them. Whether that is
        all of them.

        Args:
            places: numbers of regions -> ordinals of their devices.
            tf32: matmuls of float32 on GPUs may be taken in TF32.

        Raises:
            CancelledError: the program ends.
        """
        builds = [self._prebuilder.ahead(number, device, (True, tf32 and device != CPU_ORDINAL))
                  for number, device in places.items()]
        for build in builds:
            if build is not None:
                build.result()
        if self.ends:
            raise CancelledError
        return None not in builds

    @property
    def ends(self) -> bool:
        """Whether the program ends, and nobody waits for what is done beside it."""
        return self._prebuilder.stopping

    @property
    def building_seconds(self) -> float:
        """Processor time of threads that build regions in the background, without that of compilers."""
        return self._prebuilder.seconds

    def build_later(self, number: int, device: int, key: Key, budget: BuildBudget | None = None) -> Built:
        """As build, but in the background unless the program ends; while `budget` lasts it is waited for, and
        longer where TensorFlow's own ops would take more memory meanwhile.

        Raises:
            BuildPending: it is not built yet.
            StitchError: it cannot be built.
        """
        with self._lock:
            future = self._pending.get((number, device, key))
            new = future is None
            if future is None:
                future = self._prebuilder.submit(lambda: self._find(number, device, key),
                                                 awaited=budget is not None and budget.left > 0)
            if future is not None:
                self._pending[number, device, key] = future
        if future is None:
            return self.build(number, device, key)
        if new:
            self._prebuilder.runs(number, device, key.shapes, key.traits)
        if budget is not None:
            self.memory.wait((number, device, key), future, budget, lambda why: self._report.remark(
                "memory", f"region {number}", f"its first step waits for its kernels, instead of TensorFlow's own ops "
                                              f"meanwhile: {why}"))
        if not future.done():
            raise BuildPending
        with self._lock:
            self._pending.pop((number, device, key), None)
        if future.cancelled():  # the program ends
            raise BuildPending
        self._record(number, device, key, *future.result())
        return future.result()[0]

    def build_smaller(self, number: int, device: int, key: Key, free: int | None) -> Built:
        """An executable that takes less memory than the one there is, which had none. It takes that one's place.

        Args:
            free: bytes that are free; None: unknown.

        Raises:
            StitchError: there is none; the message says what the region would need.
        """
        place, family = self._family(number, device, key, self._fuel.limit(number, self._form(number)[1]))
        with family.lock:
            before = family.find(key.shapes)
            if before is None:
                raise StitchError("its executable is not kept any more")
            with self.activity.going_on():
                smaller = smaller_build(self._builder, place, before, key.shapes, free)
            built = smaller.built
            self.memory.planned((number, device, key), built.executable)
            family.keep(key.shapes, built)
        self._report.remark("memory", f"region {number}", smaller.said)
        say(f"region {number}: {smaller.said}")
        with self._lock:
            self._recorded.get(number, set()).discard((device, key))
        self._record(number, device, key, built, False)
        return built

    def _prepare(self, number: int, device: int, shapes: tuple[tuple[int, ...], ...], traits: Traits) -> None:
        aligned, tf32 = traits
        key = Key(aligned, shapes, tf32)
        built, _ = self._find(number, device, key)
        if aligned and device != CPU_ORDINAL:
            self.memory.own((number, device, key))
            load(PlacedRegion(number, self.region(number), device, aligned), shapes, built, self._load_ahead)

    def _find(self, number: int, device: int, key: Key) -> tuple[Built, bool]:
        """The executable, and whether it was there already."""
        if not self._fuel.in_order:
            return self._find_within(number, device, key, self._fuel.limit(number, ""))
        text = self._form(number)[1]
        with self._fuel.lock:
            built, known = self._find_within(number, device, key, self._fuel.limit(number, text))
            if built.compiled is not None:
                self._fuel.spend(text, built.compiled.plan)
        return built, known

    def _find_within(self, number: int, device: int, key: Key, patterns: int | None) -> tuple[Built, bool]:
        place, family = self._family(number, device, key, patterns)
        with family.lock:
            built = family.find(key.shapes)
            if built is not None:
                self.memory.planned((number, device, key), built.executable)
                return built, True
            shapes = " ".join("x".join(map(str, shape)) or "scalar" for shape in key.shapes)
            log("shapes", f"region {number}: {shapes} came")
            known = False
            if family.covers(place.sizes(key.shapes)):
                built = self._builder.as_before(place, key.shapes, family)
            if built is None:
                with nullcontext() if is_beside_the_program() else self.activity.going_on():
                    built, known = self._built(place, key, family)
            self.memory.planned((number, device, key), built.executable)
            family.keep(key.shapes, built)
            return built, known

    def _family(self, number: int, device: int, key: Key, patterns: int | None
                ) -> tuple[PlacedRegion, ShapeFamily[Built]]:
        """Where the executables of a region are kept, with those of equal ones."""
        region, text = self._form(number)
        place = PlacedRegion(number, region, device, key.aligned or device == CPU_ORDINAL, patterns, key.tf32)
        with self._lock:
            family = self._families.setdefault((text, device, place.aligned, place.tf32, patterns), ShapeFamily())
            self._family_of.get(number, set()).add(family)
        return place, family

    def _built(self, place: PlacedRegion, key: Key, family: ShapeFamily[Built]) -> tuple[Built, bool]:
        """An executable that is compiled now, and whether an equal region has it already."""
        shapes = key.shapes
        graph = place.without_empty_tensors(shapes)
        family.observe(place.sizes(shapes))
        built = self._builder.for_sizes(place, graph, shapes, family) if family.change.symbols else None
        if built is not None:
            return built, False
        return self._builder.for_numbers(place, graph, lambda compiled: self.memory.planned(
            (place.number, place.device, key), compiled.executable))

    @collector_paused()
    def _form(self, number: int) -> tuple[RegionGraph, str]:
        """A region with canonical symbols, and the text of its graph: equal for regions that may share kernels."""
        with self._lock:
            known = self._forms.get(number)
        if known is None:
            region = self.region(number)
            graph = with_canonical_symbols(region.graph)
            known = replace(region, graph=graph), self._builder.text(graph)
            with self._lock:
                self._forms[number] = known
        return known

    def _record(self, number: int, device: int, key: Key, built: Built, cached: bool) -> None:
        with self._lock:
            recorded = self._recorded.get(number)
            if recorded is None or (device, key) in recorded:  # py_function asks at every run
                return
            recorded.add((device, key))
            build = self._executables[number]
            self._executables[number] += 1
        if built.stem and not built.stem.startswith(f"region_{number}_"):
            self._dump.write(f"region_{number}_{build}.equal_to.txt", f"{built.stem}\n")
        if built.compiled is None:  # an entry is less than what it would keep alive
            self._report.add(_shared_entry(number, key, built))
            return
        compiled = built.compiled
        place = PlacedRegion(number, self.region(number), CPU_ORDINAL, True)
        self._report.add_later(number, len(compiled.kernels),
                               lambda: self._entries(place, build, key, built, compiled, cached))
        if compiled.source:
            self._report.add_source(_source_of(built), compiled.source)
        if self._is_new(built.stem) and not compiled.rendered:
            self._tuner.add(Job(compiled.plan, built.device, device, built.aligned, built.times, built.tuned,
                                compiled.kernels, compiled.buffers, built.fusions))

    @collector_paused()
    def labels(self, number: int, device: int, key: Key) -> dict[int, str]:
        """What a profiler is to call the steps of an executable, by their numbers: names of the region's own nodes,
        where they are known. None of one that is not kept any more.

        Raises:
            StitchError: the region was dropped.
        """
        _, family = self._family(number, device, key, self._fuel.limit(number, self._form(number)[1]))
        with family.lock:
            built = family.find(key.shapes)
        return {} if built is None else self._labels(number, key, built)

    def _labels(self, number: int, key: Key, built: Built) -> dict[int, str]:
        names = {name: name for name in names_of(self.region(number).graph)}
        if built.names and any(name not in names for nodes in built.executable.nodes for name in nodes):
            try:
                names = _own_names(built, self.bound(number, key.shapes))
            except (StitchError, ValueError) as error:  # the kernels are right all the same
                self._report.remark("profiler", f"region {number}", f"its kernels have no names: {error}")
        return step_labels(built.executable, names)

    def _is_new(self, stem: str) -> bool:
        """Whether a build has not run before: what was built in the background is there already when it first runs."""
        with self._lock:
            new = stem not in self._run
            self._run.add(stem)
            return new

    @collector_paused()
    def _entries(self, region: PlacedRegion, build: int, key: Key, built: Built, compiled: CompiledRegion, cached: bool
                 ) -> list[BuildEntry | KernelEntry]:
        """What the report says of an executable that was compiled."""
        graph = region.bound(key.shapes)
        return list(build_entries(Place(region.number, build), graph, key.shapes, compiled, built.device, cached,
                                  _source_of(built) if compiled.source else None, _own_names(built, graph),
                                  lambda pattern: built.times.get(measurement_key(pattern, built.aligned)),
                                  self._config.memory is not None and self._config.report_dir is not None))


def _own_names(built: Built, graph: TensorGraph) -> dict[str, str]:
    """Names of nodes that an executable was compiled for -> those in a graph of equal structure."""
    return dict(zip(built.names, names_of(graph), strict=True))


def _shared_entry(region: int, key: Key, built: Built) -> BuildEntry:
    """What the report says of an executable of kernels that other sizes have."""
    return BuildEntry(region, [list(shape) for shape in key.shapes], True, None, dict(built.seconds), None, [],
                      built.executable.arena_bytes, built.executable.live_bytes, {})


def _source_of(built: Built) -> str:
    """Name of the file that the report keeps a build's source in."""
    return f"{built.stem}.{target_of(built.device).suffix}"
