"""What the report says of one compiled region: its build, and its kernels by the user's node names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import NamedTuple, TypeAlias

from tf_stitch.compiler.pipeline import CompiledRegion
from tf_stitch.compiler.template_tuner import Tuning
from tf_stitch.compiler.tilings import template_of
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.graph import Node, TensorGraph
from tf_stitch.kernel_ir.cost import array_bytes, buffer_bytes, requested_bytes
from tf_stitch.kernel_ir.nodes import Mode, Program
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.placement.executable import DeviceLaunch
from tf_stitch.planning.cost_model import predict_us
from tf_stitch.planning.estimate import call_us
from tf_stitch.planning.pattern import Pattern
from tf_stitch.planning.stitch_plan import StitchPlan
from tf_stitch.report.entries import BuildEntry, EdgeEntry, KernelEntry, LaunchEntry, MemoryEntry, TuneEntry
from tf_stitch.report.transposes import transposes_beside_convolutions
from tf_stitch.report.without_kernel import without_kernel
from tf_stitch.schedule.composition import Composition, compositions
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.schemes import edges_of, independent_parts
from tf_stitch.targets.registry import target_of

_Edge: TypeAlias = tuple[Node, Node, str, str]
WORTH_A_CURVE = 1 << 20
"""Bytes alive from which on it is told what budgets of memory would cost."""
EPILOGUE = "library epilogue"
"""Scheme of what a library call does to its matmul before it stores it."""


class Place(NamedTuple):
    """A region's number, and which of its executables."""

    region: int
    build: int


def names_of(graph: TensorGraph) -> tuple[str, ...]:
    """The user's node behind every node, in the graph's order: graphs of equal structure pair up by it."""
    return tuple(node.loc.node for node in graph.nodes())


def build_entries(place: Place, graph: TensorGraph, shapes: Sequence[Sequence[int]], compiled: CompiledRegion,
                  device: DeviceSpec, cached: bool, source: str | None, own_names: Mapping[str, str],
                  measured_us: Callable[[Pattern], float | None], budgets: bool = False
                  ) -> Iterator[BuildEntry | KernelEntry]:
    """The entries of one executable.

    Args:
        graph: the region bound to these shapes, before the passes.
        source: where its source is kept.
        own_names: names in the region it was compiled for -> names in this region, of equal structure.
        measured_us: what a kernel was measured to take, if it was.
        budgets: with what budgets of memory would cost, which takes seconds.
    """
    report = compiled.plan.solver
    solver = {**asdict(report), "gap": report.gap} if report else None
    nodes = [_names(kernel.schedule.pattern.nodes, own_names) for kernel in compiled.kernels]
    calls = [_names(call.nodes, own_names) for call in compiled.calls]
    idle = without_kernel(graph, compiled.plan.free, {name for names in (*nodes, *calls) for name in names}, own_names)
    yield BuildEntry(place.region, [list(s) for s in shapes], cached, solver, dict(compiled.seconds),
                     source, list(_launches(compiled)), compiled.executable.arena_bytes,
                     compiled.executable.live_bytes, idle, _convolutions(compiled),
                     _memory(compiled, own_names, budgets))
    numbers = _pattern_numbers(compiled.plan)
    predicted = {program: round(predict_us(program, device), 3)  # equal layers have equal programs
                 for program in {kernel.program for kernel in compiled.kernels}}
    for kernel, launch, names in zip(compiled.kernels, compiled.launches, nodes, strict=True):
        schedule = kernel.schedule
        yield KernelEntry(
            region=place.region, build=place.build,
            pattern=min((numbers[n] for n, mode in kernel.arguments if mode is not Mode.READ and n in numbers),
                        default=None),
            device=target_of(device).device_type.lower(),
            symbol=kernel.program.title[:60], launch=launch, rule=schedule.family,
            domain=[int(schedule.domain.rows), int(schedule.domain.cols)], nodes=names,
            node_schemes=_node_schemes(kernel, own_names),
            schemes=dict(Counter(scheme.value for scheme in schedule.schemes.values())),
            edges=_edges(((e.value, e.user, e.scheme.value, e.why) for e in edges_of(schedule)), own_names),
            independent=_independent(schedule.pattern, own_names),
            predicted_us=predicted[kernel.program], measured_us=measured_us(schedule.pattern),
            bytes=int(buffer_bytes(kernel.program)), scratch_bytes=int(array_bytes(kernel.program)),
            shared_bytes=int(kernel.shared_bytes),
            requested_bytes=int(requested_bytes(kernel.program)),
            registers=compiled.resources[launch].registers if launch in compiled.resources else None,
            spilled_bytes=compiled.resources[launch].spilled_bytes if launch in compiled.resources else None,
            compositions=_compositions(schedule, compiled.programs.get(launch, ())),
            template=str(template_of(schedule)),
            chosen_by=_chosen_by(schedule))
    for call, names in zip(compiled.calls, calls, strict=True):
        followers = _names(call.nodes[1:], own_names)
        predicted_call = round(call_us(Pattern(call.nodes, call.nodes[-1:], compiled.plan.free),
                                       target_of(device).libraries, device), 3)
        yield KernelEntry(
            region=place.region, build=place.build, pattern=numbers.get(call.nodes[-1]),
            device=target_of(device).device_type.lower(),
            symbol=str(call.call), launch="", rule="library", domain=list(map(int, call.call.domain)), nodes=names,
            node_schemes=dict.fromkeys(followers, EPILOGUE), schemes={EPILOGUE: len(followers)} if followers else {},
            edges=_edges(_followed(call.nodes), own_names),
            predicted_us=predicted_call, measured_us=None, bytes=int(call.call.nbytes), scratch_bytes=0, shared_bytes=0,
            chosen_by="library")


def _convolutions(compiled: CompiledRegion) -> str:
    found = transposes_beside_convolutions(compiled)
    return str(found) if found.convolutions else ""


def _compositions(schedule: KernelSchedule, together: Sequence[Program]) -> list[str]:
    """The kernel's, and packing where its launch runs several."""
    packed = [Composition.PACKING] if len(together) > 1 else []
    return list(dict.fromkeys(one.value for one in (*packed, *compositions(schedule))))


def _chosen_by(schedule: KernelSchedule) -> str:
    groups = [group for together in schedule.groups for group in together] or [schedule]
    return "+".join(dict.fromkeys(group.origin.value for group in groups))


def tune_entry(tuning: Tuning, seconds: float) -> TuneEntry:
    """What tuning found for one pattern."""
    return TuneEntry(kernel=tuning.default.program.title[:60], **asdict(tuning.record()), failed=len(tuning.failed),
                     seconds=round(seconds, 3))


def _memory(compiled: CompiledRegion, own_names: Mapping[str, str], with_budgets: bool) -> MemoryEntry:
    profile = compiled.memory
    held: Counter[str] = Counter()
    for node, nbytes in profile.holders:
        held[own_names.get(node.loc.node, node.loc.node)] += nbytes
    results = sum(int(output.nbytes) for output in compiled.executable.outputs)
    entry = MemoryEntry(list(profile.alive), profile.peak, held.most_common(), profile.least_bytes, results)
    if not with_budgets or compiled.executable.live_bytes < WORTH_A_CURVE:
        return entry
    curve = compiled.curve
    budgets = [{"fraction": point.fraction, "bytes": point.nbytes, "us": round(point.us, 3), "kept": point.kept}
               for point in curve.points]
    return replace(entry, step_us=round(curve.step_us, 3), budgets=budgets)


def _names(nodes: Sequence[Node], own_names: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(own_names.get(n.loc.node, n.loc.node) for n in nodes if n.loc.node))


def _pattern_numbers(plan: StitchPlan) -> dict[Node, int]:
    """Numbers of patterns of more than one node, as TF_STITCH_FUEL counts them, by what they write."""
    several = (p for p in plan.patterns if len(p.nodes) > 1)
    return {node: i for i, pattern in enumerate(several) for node in pattern.outputs}


def _launches(compiled: CompiledRegion) -> Iterator[LaunchEntry]:
    on_device = {step.symbol: step for step in compiled.executable.steps if isinstance(step, DeviceLaunch)}
    for symbol, programs in compiled.programs.items():
        buffers = [(b.dtype.value, int(b.size), b.mode is not Mode.WRITE) for p in programs for b in p.parameters]
        step = on_device.get(symbol)
        grid, shared = (int(programs[0].grid), 0) if step is None else (step.grid, step.shared_bytes)
        resources = compiled.resources.get(symbol)
        yield LaunchEntry(symbol, grid, programs[0].threads, shared, buffers, programs[0].cooperative,
                          resources.static_shared_bytes if resources else 0)


def _node_schemes(kernel: LoweredKernel, own_names: Mapping[str, str]) -> dict[str, str]:
    """Schemes of each user's node; those of its several values joined by "+", the one of its result last."""
    found: dict[str, dict[str, None]] = {}
    schemes = kernel.schedule.schemes
    for node in kernel.schedule.pattern.nodes:
        if node.loc.node and node in schemes:
            mine = found.setdefault(own_names.get(node.loc.node, node.loc.node), {})
            mine.pop(schemes[node].value, None)
            mine[schemes[node].value] = None
    return {name: "+".join(mine) for name, mine in found.items()}


def _edges(edges: Iterable[_Edge], own_names: Mapping[str, str]) -> list[EdgeEntry]:
    """Edges by the user's nodes, each once."""
    names = ((own_names.get(value.loc.node, value.loc.node), own_names.get(user.loc.node, user.loc.node), scheme, why)
             for value, user, scheme, why in edges)
    return [EdgeEntry(*edge) for edge in dict.fromkeys(names) if edge[0] and edge[1]]


def _followed(nodes: Sequence[Node]) -> Iterator[_Edge]:
    """Edges of a library call."""
    for user in nodes[1:]:
        for value in user.operands:
            if value in nodes:
                yield value, user, EPILOGUE, "the library does it to the matmul before it stores it"


def _independent(pattern: Pattern, own_names: Mapping[str, str]) -> list[list[str]]:
    parts = independent_parts(pattern)
    return [_names(part, own_names) for part in parts] if len(parts) > 1 else []
