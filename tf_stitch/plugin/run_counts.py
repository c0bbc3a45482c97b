"""What the native op and the registry have counted in a run, for the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tf_stitch.jit.region_registry import RegionRegistry
from tf_stitch.native.bindings import GraphRecord, OpLibrary
from tf_stitch.report.entries import CudaGraphs, RegionEntry
from tf_stitch.report.report import Report


def count(entry: RegionEntry, registry: RegionRegistry, native: OpLibrary | None) -> None:
    """Enters how often a region was built and run."""
    if entry.id in registry:
        entry.executables = registry.executables(entry.id)
        entry.builds = registry.builds(entry.id)
        entry.builds_behind = registry.builds_behind(entry.id)
    if native is not None and entry.wrap == "native":
        entry.runs, entry.fallbacks = native.region_runs(entry.id), native.region_fallbacks(entry.id)
        entry.preferred_fallback_runs = native.region_preferred_fallbacks(entry.id)
        entry.shadow_runs = native.region_shadows(entry.id)


def record_native(native: OpLibrary, report: Report, where: Callable[[int], str]) -> None:
    """What the native op counted and decided by itself."""
    for region, reason, times in native.native_fallbacks():
        report.note("run", where(region), reason, times - 1)  # one was noted when it began
    _record_graphs(native, report, where)


def _record_graphs(native: OpLibrary, report: Report, where: Callable[[int], str]) -> None:
    """CUDA graphs of every region, over all devices."""
    found: dict[int, list[GraphRecord]] = {}
    for record in native.graphs():
        found.setdefault(record.region, []).append(record)
    for entry in report.regions:
        entry.cuda_graphs = _cuda_graphs(found[entry.id]) if entry.id in found else None
        graphs = entry.cuda_graphs
        if graphs is not None and (graphs.failures or graphs.refused):
            report.fallback("cuda graph", where(entry.id), graphs.error,
                            "its steps are launched one by one" if graphs.failures else
                            "its kernels start one after the other")


def _cuda_graphs(records: Sequence[GraphRecord]) -> CudaGraphs:
    launches, known = sum(r.launches for r in records), sum(r.known for r in records)
    return CudaGraphs(graphs=sum(r.graphs for r in records), instances=sum(r.instances for r in records),
                      making_us=_micros(sum(r.making_ns for r in records)),
                      launches=launches, host_us=_micros(sum(r.host_ns for r in records), launches),
                      known=known, known_us=_micros(sum(r.known_ns for r in records), known),
                      updates=sum(r.updates for r in records),
                      programmatic=sum(r.programmatic for r in records), refused=sum(r.refused for r in records),
                      given_up=sum(r.given_up for r in records), failures=sum(r.failures for r in records),
                      error=next((r.error for r in records if r.error), ""))


def _micros(nanoseconds: int, times: int = 1) -> float:
    return round(nanoseconds / 1e3 / max(times, 1), 3)
