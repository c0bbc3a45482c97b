"""Regions of this process: registered when a graph is rewritten, compiled when shapes are known."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tf_stitch.config import StitchConfig
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import BindError, BuildPending, StitchError
from tf_stitch.integration.build_entries import Place, build_entries, names_of
from tf_stitch.integration.dump import Dump, RegionDump
from tf_stitch.integration.kernel_library import KernelLibrary
from tf_stitch.integration.prebuild import Prebuilder
from tf_stitch.integration.region_graph import RegionGraph
from tf_stitch.integration.report import BuildEntry, Report
from tf_stitch.integration.shape_family import CPU_LENGTHS, GPU_LENGTHS, ShapeFamily, Shapes, expected_sizes
from tf_stitch.ir.bind import bind, bind_changing, related_symbols, symbol_sizes
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.ir.types import static_shape, substitute
from tf_stitch.pipeline import CompiledRegion, CompileOptions, compile_region
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.runtime.device_query import compute_capability, cpu_count
from tf_stitch.runtime.executable import DeviceLaunch, Executable, encode
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_run import HostExecutable
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda

CPU_ORDINAL = -1
VECTOR = 4
"""Multiples that kernels for sizes that change are made for: elements of a vector access on a GPU."""


@dataclass(frozen=True)
class Key:
    """A shape signature as the native op gives it: alignment, then the shape of every input and variable."""

    aligned: bool
    shapes: tuple[tuple[int, ...], ...]

    @staticmethod
    def parse(words: Sequence[int]) -> Key:
        shapes: list[tuple[int, ...]] = []
        at = 1
        while at < len(words):
            rank = words[at]
            shapes.append(tuple(words[at + 1:at + 1 + rank]))
            at += 1 + rank
        return Key(bool(words[0] & 1), tuple(shapes))


@dataclass
class Built:
    """An executable with its binary loaded or at hand.

    Attributes:
        compiled: None where nothing had to be built: the kernels of other sizes serve.
        host: None on a GPU.
    """

    compiled: CompiledRegion | None
    executable: Executable
    words: list[int]
    host: HostExecutable | None
    device: DeviceSpec
    names: tuple[str, ...]  # of the nodes it was compiled for, operands first
    stem: str  # of its dumps, "" if nothing was built
    seconds: dict[str, float]


class RegionRegistry:
    """Thread-safe. Regions of equal structure and shapes share one build (F13)."""

    def __init__(self, config: StitchConfig, report: Report, dump: Dump) -> None:
        self._config, self._report, self._dump = config, report, dump
        self._regions: list[RegionGraph] = []
        self._built: dict[tuple[object, ...], Built] = {}
        self._locks: dict[tuple[object, ...], threading.Lock] = {}
        self._lock = threading.Lock()
        self._families: dict[tuple[object, ...], ShapeFamily[Built]] = {}
        self._pending: dict[tuple[int, int, Key], Future[tuple[TensorGraph, Built, bool]]] = {}
        self._texts: dict[int, str] = {}  # of each region's graph, with its symbols
        self._keep: list[Any] = []  # images and symbol names that the native op points to
        self._executables: Counter[int] = Counter()
        self._compiled: Counter[int] = Counter()
        self._prebuilder = Prebuilder(self._prepare, cpu_count())
        self.cache = KernelCache(config.cache_dir / "kernels")
        self._library = KernelLibrary(self.cache)
        if self.cache.problem:
            report.fallback("cache", str(config.cache_dir), self.cache.problem)

    def register(self, region: RegionGraph, group: int = -1) -> int:
        """The number that names the region in its op; regions of one graph have one `group`."""
        with self._lock:
            self._regions.append(region)
            number = len(self._regions) - 1
        if group >= 0:
            self._prebuilder.add(number, region, group)
        return number

    def close(self) -> None:
        """Drops background builds that have not started."""
        self._prebuilder.close()

    def region(self, number: int) -> RegionGraph:
        return self._regions[number]

    def executables(self, number: int) -> int:
        """Shape signatures built for a region so far."""
        return self._executables[number]

    def builds(self, number: int) -> int:
        """Compiler runs that a region has asked for so far; those of its equals are theirs."""
        return self._compiled[number]

    def bound(self, number: int, shapes: Sequence[Sequence[int]]) -> TensorGraph:
        """The region with its symbols replaced by what the shapes of its inputs and variables say.

        Raises:
            BindError: the shapes contradict the region.
        """
        return bind(self.region(number).graph, self._by_name(number, shapes))

    def build(self, number: int, device: int, key: Key) -> Built:
        """The executable of a region for one signature, built once.

        Raises:
            StitchError: it cannot be built; the message says why.
        """
        self._prebuilder.runs(number, device, key.shapes, key.aligned)
        graph, built, known = self._find(number, device, key)
        self._record(number, key, graph, built, known)
        return built

    def build_later(self, number: int, device: int, key: Key) -> Built:
        """As build, but in the background.

        Raises:
            BuildPending: it is not built yet.
            StitchError: it cannot be built.
        """
        with self._lock:
            future = self._pending.get((number, device, key))
            new = future is None
            if future is None:
                future = self._prebuilder.submit(lambda: self._find(number, device, key))
                self._pending[number, device, key] = future
        if new:
            self._prebuilder.runs(number, device, key.shapes, key.aligned)
        if not future.done():
            raise BuildPending
        with self._lock:
            self._pending.pop((number, device, key), None)
        self._record(number, key, *future.result())
        return future.result()[1]

    def _prepare(self, number: int, device: int, shapes: tuple[tuple[int, ...], ...], aligned: bool) -> None:
        self._find(number, device, Key(aligned, shapes))

    def _find(self, number: int, device: int, key: Key) -> tuple[TensorGraph, Built, bool]:
        """The bound graph, its executable, and whether that was there already."""
        graph = self.bound(number, key.shapes)
        for node in graph.nodes():
            if node.type.numel == 0:
                raise BindError("a tensor has no elements", node.loc)
        aligned = key.aligned or device == CPU_ORDINAL
        family = self._family(number, device, aligned)
        with family.lock:
            built = family.find(key.shapes)
            if built is not None:
                return graph, built, True
            family.meet(symbol_sizes(self.region(number).graph, self._by_name(number, key.shapes)))
            if family.changing:
                built, known = self._share(number, graph, key.shapes, family, device, aligned), False
            if built is None:
                built, known = self._compile_once(number, graph, device, aligned)
            family.keep(key.shapes, built)
            return graph, built, known

    def _family(self, number: int, device: int, aligned: bool) -> ShapeFamily[Built]:
        with self._lock:
            if number not in self._texts:
                self._texts[number] = anonymous_text(self._regions[number].graph)
            return self._families.setdefault((self._texts[number], device, aligned), ShapeFamily())

    def _compile_once(self, number: int, graph: TensorGraph, device: int, aligned: bool) -> tuple[Built, bool]:
        """An executable for numbers alone, and whether it was there already."""
        identity = (anonymous_text(graph), device, aligned)
        with self._lock:
            lock = self._locks.setdefault(identity, threading.Lock())
        with lock:
            known = identity in self._built
            if not known:
                self._built[identity] = self._compile(number, graph, device, aligned)
            return self._built[identity], known

    def _share(self, number: int, graph: TensorGraph, shapes: Shapes, family: ShapeFamily[Built], device: int,
               aligned: bool) -> Built | None:
        """An executable of kernels that serve other sizes too. Where one is not built, all that other sizes may need are
        built with it. None where the region's kernels depend on its sizes."""
        region = self.region(number)
        options = replace(self._options(device, aligned), plans=family.plans)
        multiple = VECTOR if options.device.is_gpu else 1
        start = time.perf_counter()

        def compiled(its_shapes: Shapes) -> CompiledRegion:
            bound = bind_changing(region.graph, self._by_name(number, its_shapes), family.changing, multiple)
            return compile_region(bound, *self._arguments(number), options)

        try:
            wanted = compiled(shapes)
        except StitchError as error:
            if self._config.verbose:
                print(f"[tf_stitch] region {number} is compiled for each of its sizes: {error}", file=sys.stderr)
            return None
        kernels = self._library.missing(wanted.rendered, options.device)
        if not kernels:
            return self._shared(graph, wanted, options.device)
        stem = self._new_stem(number)
        RegionDump(self._dump, stem).compiled(wanted, options.device)
        if family.prepared != family.changing:
            family.prepared = family.changing
            for other in self._expected(number, shapes, family, options.device):
                try:
                    kernels |= self._library.missing(compiled(other).rendered, options.device)
                except StitchError:
                    continue  # sizes that no program can have, or that are compiled for themselves
        wanted.seconds["others"] = time.perf_counter() - start - sum(wanted.seconds.values())
        start = time.perf_counter()
        self._library.build(kernels, options.device)
        wanted.seconds["build"] = time.perf_counter() - start
        return replace(self._shared(graph, wanted, options.device), stem=stem, compiled=wanted)

    def _shared(self, graph: TensorGraph, compiled: CompiledRegion, device: DeviceSpec) -> Built:
        executable, names = compiled.executable, names_of(graph)
        if device.is_gpu:
            words, host = self._library.device_words(executable, device), None
        else:
            host = self._library.host(executable, device)
            words = encode(executable, host.addresses())
        return Built(None, executable, words, host, device, names, "", compiled.seconds)

    def _expected(self, number: int, shapes: Shapes, family: ShapeFamily[Built], device: DeviceSpec) -> Iterator[Shapes]:
        """Shapes of other sizes that the region may meet."""
        region, named = self.region(number), self._by_name(number, shapes)
        related = related_symbols(region.graph, named, family.changing)
        lengths = GPU_LENGTHS if device.is_gpu else CPU_LENGTHS
        for sizes in expected_sizes(symbol_sizes(region.graph, named), family.changing, related, lengths):
            yield tuple(static_shape(substitute(shape, sizes)) for shape in region.argument_shapes())

    def _options(self, device: int, aligned: bool) -> CompileOptions:
        return CompileOptions(_spec(device), PlanOptions(self._config.planner, self._config.ilp_seconds), aligned)

    def _arguments(self, number: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of a region's inputs and variables."""
        region = self.region(number)
        return (tuple(f"i{i}" for i in range(len(region.inputs))), tuple(f"v{i}" for i in range(len(region.handles))))

    def _by_name(self, number: int, shapes: Sequence[Sequence[int]]) -> dict[str, Sequence[int]]:
        inputs, variables = self._arguments(number)
        return dict(zip((*inputs, *variables), shapes, strict=True))

    def _new_stem(self, number: int) -> str:
        with self._lock:
            self._compiled[number] += 1
            return f"region_{number}_{self._compiled[number] - 1}"

    def _compile(self, number: int, graph: TensorGraph, device: int, aligned: bool) -> Built:
        options, stem = self._options(device, aligned), self._new_stem(number)
        dump = RegionDump(self._dump, stem)
        dump.graph(graph)
        compiled = compile_region(graph, *self._arguments(number), options, dump.instrument())
        dump.compiled(compiled, options.device)
        start = time.perf_counter()
        host = None
        if not compiled.source:
            words = encode(compiled.executable, {})
        elif options.device.is_gpu:
            words = self._load_device(compiled, build_cuda(compiled.source, options.device.architecture, self.cache))
        else:
            host = HostExecutable(compiled.executable,
                                  build_host(compiled.source, options.device.architecture, self.cache))
            words = encode(compiled.executable, host.addresses())
        compiled.seconds["build"] = time.perf_counter() - start
        return Built(compiled, compiled.executable, words, host, options.device, names_of(graph), stem, compiled.seconds)

    def _load_device(self, compiled: CompiledRegion, cubin: Path) -> list[int]:
        """The executable's words, with a cubin that stays in memory."""
        data = cubin.read_bytes()
        image = ctypes.create_string_buffer(data, len(data) + 1)
        names = {s.symbol for s in compiled.executable.steps if isinstance(s, DeviceLaunch)}
        symbols = {n: ctypes.create_string_buffer(n.encode()) for n in names}
        self._keep += [image, *symbols.values()]
        return encode(compiled.executable, {n: ctypes.addressof(b) for n, b in symbols.items()},
                      {(ctypes.addressof(image), len(data)): names})

    def _record(self, number: int, key: Key, graph: TensorGraph, built: Built, cached: bool) -> None:
        with self._lock:
            build = self._executables[number]
            self._executables[number] += 1
        if built.stem and not built.stem.startswith(f"region_{number}_"):
            self._dump.write(f"region_{number}_{build}.equal_to.txt", f"{built.stem}\n")
        own_names = dict(zip(built.names, names_of(graph), strict=True))
        place = Place(number, build)
        if built.compiled is None:
            self._report.add(BuildEntry(number, [list(s) for s in key.shapes], True, None, dict(built.seconds)))
            return
        for entry in build_entries(place, key.shapes, built.compiled, built.device, cached, own_names):
            self._report.add(entry)


def _spec(device: int) -> DeviceSpec:
    if device == CPU_ORDINAL:
        return replace(CPU, processors=cpu_count())
    return replace(H200, architecture=compute_capability(device))
