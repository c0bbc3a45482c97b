"""Kernels, library calls and their buffers become the steps of an executable, and the source that it needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tf_stitch.compiler.early_weights import with_early_weights
from tf_stitch.compiler.packing import pack
from tf_stitch.compiler.thread_partitions import Partition
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.emit.rendered import Packed, Rendered
from tf_stitch.errors import ScheduleError
from tf_stitch.kernel_ir.cost import shared_bytes
from tf_stitch.kernel_ir.nodes import Mode, Program
from tf_stitch.kernel_ir.occupancy import launch_bound
from tf_stitch.kernel_ir.side_by_side import grid_of
from tf_stitch.libraries.call import BoundCall
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.placement.buffer_plan import BufferPlan, Work
from tf_stitch.placement.executable import BufferRef, DeviceLaunch, HostLaunch, LibraryStep, Step
from tf_stitch.placement.executable_format import Space
from tf_stitch.placement.step_order import Access, predecessors
from tf_stitch.targets.registry import target_of


@dataclass(frozen=True)
class Assembly:
    """Steps without the copies at the end, and what they run.

    Attributes:
        programs: what the symbol of each launch runs, in the order of its arguments.
        launches: the symbol that runs each kernel, "" for one without elements.
        rendered: kernels that other sizes share, by symbol; `source` holds them all.
        own: kernels whose symbols mean nothing beyond this region, if it has such; `source` holds them all.
        after: for each step, copies last, the earlier ones it has to wait for; None on a CPU, where they run in turn.
        nodes: names of the user's nodes that each step computes.
    """

    steps: Sequence[Step]
    source: str
    programs: dict[str, tuple[Program, ...]]
    launches: tuple[str, ...]
    rendered: Mapping[str, Rendered] = field(default_factory=dict)
    own: Sequence[Rendered] = ()
    after: tuple[tuple[int, ...], ...] | None = None
    nodes: Sequence[tuple[str, ...]] = ()


Fusions: TypeAlias = Callable[[BufferPlan, Sequence[Sequence[int]]], Mapping[tuple[int, ...], Partition]]
"""Of the groups that share a launch, sets of those of one kernel each that share blocks instead, and how."""


def assemble(buffers: BufferPlan, device: DeviceSpec, for_all_sizes: bool, fusions: Fusions | None = None) -> Assembly:
    """The steps of a region.

    Args:
        for_all_sizes: kernels are named after their text, and get sizes that change as arguments; none share blocks.
    """
    if not device.queued:
        return _for_all_sizes(buffers, None, device) if for_all_sizes else _on_host(buffers, device)
    groups = pack(buffers.kernels, buffers.levels, for_all_sizes, device)
    if for_all_sizes:
        return replace(_for_all_sizes(buffers, groups, device), after=_after(buffers, groups))
    fused = fusions(buffers, groups) if fusions is not None else {}
    groups = _fused(groups, fused.keys())
    return replace(_on_device(buffers, groups, device, fused), after=_after(buffers, groups))


def _fused(groups: Sequence[Sequence[int]], sets: Collection[tuple[int, ...]]) -> list[list[int]]:
    """The groups with each set in the place of the first of it."""
    by_first = {numbers[0]: numbers for numbers in sets}
    gone = {i for numbers in sets for i in numbers[1:]}
    return [list(by_first.get(group[0], group)) for group in groups if group[0] not in gone]


def _unique(work: Sequence[Work], but: Collection[int] = ()) -> tuple[list[tuple[str, Program]], dict[int, int]]:
    """Programs without repetition (F13), named, and the program number of every kernel by its place in `work`, but for
    some places."""
    numbers: dict[Program, int] = {}
    which = {i: numbers.setdefault(one.program, len(numbers)) for i, one in enumerate(work)
             if isinstance(one, LoweredKernel) and i not in but}
    return [(f"stitch_{i}", program) for i, program in enumerate(numbers)], which


def _args(buffers: BufferPlan, work: Work) -> tuple[BufferRef, ...]:
    return tuple(buffers.argument(node, mode) for node, mode in work.arguments)


def _user_nodes(*work: Work) -> tuple[str, ...]:
    """What a step computes, what it is named after last: what decided a kernel's schedule, or a call's own node."""
    names: dict[str, None] = {}
    for one in work:
        nodes, main = (one.nodes, one.nodes[0]) if isinstance(one, BoundCall) else (
            one.schedule.pattern.nodes, one.schedule.dominant)
        names |= dict.fromkeys(node.loc.node for node in nodes if node.loc.node)
        if main.loc.node:
            names.pop(main.loc.node, None)
            names[main.loc.node] = None
    return tuple(names)


def _library_step(work: BoundCall, args: tuple[BufferRef, ...]) -> LibraryStep:
    """The step of a library call, for the sizes at hand.

    Raises:
        ScheduleError: the library cannot count so far.
    """
    call = work.call.at_hand()
    reason = call.too_large()
    if reason:
        raise ScheduleError(reason, work.nodes[0].loc)
    return LibraryStep(call, args)


def _on_host(buffers: BufferPlan, device: DeviceSpec) -> Assembly:
    programs, which = _unique(buffers.kernels)
    steps: list[Step] = []
    nodes: list[tuple[str, ...]] = []
    for i, work in enumerate(buffers.kernels):
        if isinstance(work, BoundCall):
            steps.append(_library_step(work, _args(buffers, work)))
        elif work.program.grid:
            steps.append(HostLaunch(programs[which[i]][0], _args(buffers, work)))
        else:  # no elements: no work
            continue
        nodes.append(_user_nodes(work))
    names = tuple(programs[i][0] if programs[i][1].grid else "" for i in which.values())
    runs: dict[str, tuple[Program, ...]] = {name: (program,) for name, program in programs}
    launches = [Packed(name, (number,)) for number, (name, _) in enumerate(programs)]
    emission = target_of(device).emission
    own = emission.launches(programs, launches)
    return Assembly(steps, emission.source(own), runs, names, own=own, nodes=nodes)


def _on_device(buffers: BufferPlan, groups: Sequence[Sequence[int]], device: DeviceSpec,
               fused: Mapping[tuple[int, ...], Partition]) -> Assembly:
    early = with_early_weights(buffers, groups, device)
    programs, which = _unique(early, {i for numbers in fused for i in numbers})
    steps: list[Step] = []
    launches: dict[tuple[int, ...], Packed] = {}
    names = {i: "" for i, work in enumerate(buffers.kernels) if isinstance(work, LoweredKernel)}
    for group in groups:
        first = buffers.kernels[group[0]]
        if isinstance(first, BoundCall):
            steps.append(_library_step(first, _args(buffers, first)))
            continue
        partition = fused.get(tuple(group))
        members = tuple(which[i] for i in group) if partition is None else (_number(partition.program, programs),)
        if members not in launches:
            bound = launch_bound([programs[number][1] for number in members], device)
            launches[members] = Packed(f"launch_{len(launches)}", members, bound)
        launch = launches[members]
        names |= dict.fromkeys(group, launch.name)
        kernels = _kernels(buffers, group) if partition is None else partition.kernels
        shared = _shared(kernels) if partition is None else shared_bytes(programs[members[0]][1])
        args = tuple(a for kernel in kernels for a in _args(buffers, kernel))
        steps.append(_device_launch(launch.name, [programs[i][1] for i in members], shared, args, steps))
    runs = {launch.name: tuple(programs[i][1] for i in launch.members) for launch in launches.values()}
    emission = target_of(device).emission
    own = emission.launches(programs, list(launches.values()))
    nodes = [_user_nodes(*(buffers.kernels[i] for i in group)) for group in groups]
    return Assembly(steps, emission.source(own), runs, tuple(names.values()), own=own, nodes=nodes)


def _number(program: Program, programs: list[tuple[str, Program]]) -> int:
    """Of a program, which is added if it is not there."""
    known = next((i for i, (_, other) in enumerate(programs) if other == program), len(programs))
    if known == len(programs):
        programs.append((f"stitch_{known}", program))
    return known


def _kernels(buffers: BufferPlan, group: Sequence[int]) -> list[LoweredKernel]:
    return [work for i in group if isinstance(work := buffers.kernels[i], LoweredKernel)]


def _shared(kernels: Sequence[LoweredKernel]) -> int:
    """Bytes of a block that is one of any of them."""
    return max(kernel.shared_bytes for kernel in kernels)


def _device_launch(symbol: str, programs: Sequence[Program], shared: int, args: tuple[BufferRef, ...],
                   before: Sequence[Step], sizes: tuple[int, ...] = ()) -> DeviceLaunch:
    """The launch of programs side by side; a cooperative one, alone, gets counters that no step before it has."""
    grid = int(grid_of(programs))
    first = programs[0]
    cooperative = first.cooperative
    if cooperative:
        used = sum(step.grid for step in before if isinstance(step, DeviceLaunch) and step.cooperative)
        args = (*args, BufferRef(Space.BARRIER, used))
    return DeviceLaunch(symbol, grid, first.threads, shared, args, sizes, cooperative)


def _after(buffers: BufferPlan, groups: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """For each step, copies last, the earlier ones it has to wait for."""
    accesses = [[Access(buffers.argument(node, mode), int(node.type.nbytes), mode is not Mode.READ)
                 for i in group for node, mode in buffers.kernels[i].arguments] for group in groups]
    accesses += [[Access(c.target, c.nbytes, True), Access(c.source, c.nbytes, False)] for c in buffers.copies]
    return tuple(predecessors(accesses))


def _for_all_sizes(buffers: BufferPlan, groups: Sequence[Sequence[int]] | None, device: DeviceSpec) -> Assembly:
    """Steps whose kernels serve other sizes too.

    Args:
        groups: of kernels that share a launch; None where they run one after the other.
    """
    steps: list[Step] = []
    runs: dict[str, tuple[Program, ...]] = {}
    rendered: dict[str, Rendered] = {}
    made: dict[tuple[Program, ...], Rendered] = {}
    nodes: list[tuple[str, ...]] = []
    names = {i: "" for i, work in enumerate(buffers.kernels) if isinstance(work, LoweredKernel)}
    for group in groups if groups is not None else [[i] for i in range(len(buffers.kernels))]:
        first = buffers.kernels[group[0]]
        args = tuple(a for i in group for a in _args(buffers, buffers.kernels[i]))
        if isinstance(first, BoundCall):
            steps.append(_library_step(first, args))
            nodes.append(_user_nodes(first))
            continue
        kernels = _kernels(buffers, group)
        programs = tuple(kernel.program for kernel in kernels)
        if not all(program.grid for program in programs):  # no elements: no work
            continue
        if programs not in made:
            made[programs] = target_of(device).emission.render(programs, device)
        launch = made[programs]
        rendered[launch.symbol] = launch
        runs[launch.symbol] = programs
        names |= dict.fromkeys(group, launch.symbol)
        nodes.append(_user_nodes(*kernels))
        if groups is not None:
            steps.append(_device_launch(launch.symbol, programs, _shared(kernels), args, steps, launch.sizes))
        else:
            steps.append(HostLaunch(launch.symbol, args, launch.sizes))
    return Assembly(steps, target_of(device).emission.source(rendered.values()), runs, tuple(names.values()), rendered,
                    nodes=nodes)
