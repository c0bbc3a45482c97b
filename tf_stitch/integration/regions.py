"""Regions of this process: registered when a graph is rewritten, compiled when shapes are known."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tf_stitch.config import StitchConfig
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.errors import BindError
from tf_stitch.integration.build_entries import Place, build_entries, names_of
from tf_stitch.integration.dump import Dump, RegionDump
from tf_stitch.integration.prebuild import Prebuilder
from tf_stitch.integration.region_graph import RegionGraph
from tf_stitch.integration.report import Report
from tf_stitch.ir.bind import bind
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.pipeline import CompiledRegion, CompileOptions, compile_region
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.runtime.device_query import compute_capability, cpu_count
from tf_stitch.runtime.executable import DeviceLaunch, Executable, encode
from tf_stitch.runtime.host_builder import build_host
from tf_stitch.runtime.host_run import HostExecutable
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda

CPU_ORDINAL = -1


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
    """An executable with its binary loaded or at hand; `host` is None on a GPU."""

    compiled: CompiledRegion
    executable: Executable
    words: list[int]
    host: HostExecutable | None
    device: DeviceSpec
    names: tuple[str, ...]  # of the nodes it was compiled for, operands first
    stem: str  # of its dumps


class RegionRegistry:
    """Thread-safe. Regions of equal structure and shapes share one build (F13)."""

    def __init__(self, config: StitchConfig, report: Report, dump: Dump) -> None:
        self._config, self._report, self._dump = config, report, dump
        self._regions: list[RegionGraph] = []
        self._built: dict[tuple[object, ...], Built] = {}
        self._locks: dict[tuple[object, ...], threading.Lock] = {}
        self._lock = threading.Lock()
        self._keep: list[Any] = []  # images and symbol names that the native op points to
        self._executables: Counter[int] = Counter()
        self._compiled: Counter[int] = Counter()
        self._prebuilder = Prebuilder(self._prepare, cpu_count())
        self.cache = KernelCache(config.cache_dir / "kernels")
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

    def bound(self, number: int, shapes: Sequence[Sequence[int]]) -> TensorGraph:
        """The region with its symbols replaced by what the shapes of its inputs and variables say.

        Raises:
            BindError: the shapes contradict the region.
        """
        region = self.region(number)
        names = [f"i{i}" for i in range(len(region.inputs))] + [f"v{i}" for i in range(len(region.handles))]
        return bind(region.graph, dict(zip(names, shapes, strict=True)))

    def build(self, number: int, device: int, key: Key) -> Built:
        """The executable of a region for one signature, built once.

        Raises:
            StitchError: it cannot be built; the message says why.
        """
        self._prebuilder.runs(number, device, key.shapes, key.aligned)
        graph, built, known = self._find(number, device, key)
        self._record(number, key, graph, built, known)
        return built

    def _prepare(self, number: int, device: int, shapes: tuple[tuple[int, ...], ...], aligned: bool) -> None:
        self._find(number, device, Key(aligned, shapes))

    def _find(self, number: int, device: int, key: Key) -> tuple[TensorGraph, Built, bool]:
        """The bound graph, its executable, and whether that was there already."""
        graph = self.bound(number, key.shapes)
        for node in graph.nodes():
            if node.type.numel == 0:
                raise BindError("a tensor has no elements", node.loc)
        aligned = key.aligned or device == CPU_ORDINAL
        identity = (anonymous_text(graph), device, aligned)
        with self._lock:
            lock = self._locks.setdefault(identity, threading.Lock())
        with lock:
            known = identity in self._built
            if not known:
                self._built[identity] = self._compile(number, graph, device, aligned)
            return graph, self._built[identity], known

    def _compile(self, number: int, graph: TensorGraph, device: int, aligned: bool) -> Built:
        region = self.region(number)
        inputs = tuple(f"i{i}" for i in range(len(region.inputs)))
        variables = tuple(f"v{i}" for i in range(len(region.handles)))
        options = CompileOptions(_spec(device), PlanOptions(self._config.planner, self._config.ilp_seconds), aligned)
        with self._lock:
            self._compiled[number] += 1
            stem = f"region_{number}_{self._compiled[number] - 1}"
        dump = RegionDump(self._dump, stem)
        dump.graph(graph)
        compiled = compile_region(graph, inputs, variables, options, dump.instrument())
        dump.compiled(compiled, options.device)
        start = time.perf_counter()
        host = None
        if not compiled.source:
            words = encode(compiled.executable, {}, None)
        elif options.device.is_gpu:
            words = self._load_device(compiled, build_cuda(compiled.source, options.device.architecture, self.cache))
        else:
            host = HostExecutable(compiled.executable,
                                  build_host(compiled.source, options.device.architecture, self.cache))
            words = encode(compiled.executable, host.addresses(), None)
        compiled.seconds["build"] = time.perf_counter() - start
        return Built(compiled, compiled.executable, words, host, options.device, names_of(graph), stem)

    def _load_device(self, compiled: CompiledRegion, cubin: Path) -> list[int]:
        """The executable's words, with a cubin that stays in memory."""
        data = cubin.read_bytes()
        image = ctypes.create_string_buffer(data, len(data) + 1)
        names = {s.symbol for s in compiled.executable.steps if isinstance(s, DeviceLaunch)}
        symbols = {n: ctypes.create_string_buffer(n.encode()) for n in names}
        self._keep += [image, *symbols.values()]
        return encode(compiled.executable, {n: ctypes.addressof(b) for n, b in symbols.items()},
                      (ctypes.addressof(image), len(data)))

    def _record(self, number: int, key: Key, graph: TensorGraph, built: Built, cached: bool) -> None:
        with self._lock:
            build = self._executables[number]
            self._executables[number] += 1
        if not built.stem.startswith(f"region_{number}_"):
            self._dump.write(f"region_{number}_{build}.equal_to.txt", f"{built.stem}\n")
        own_names = dict(zip(built.names, names_of(graph), strict=True))
        for entry in build_entries(Place(number, build), key.shapes, built.compiled, built.device, cached, own_names):
            self._report.add(entry)


def _spec(device: int) -> DeviceSpec:
    if device == CPU_ORDINAL:
        return replace(CPU, processors=cpu_count())
    return replace(H200, architecture=compute_capability(device))
