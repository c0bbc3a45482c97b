"""Kernels, library calls and their buffers become the steps of an executable, and the source that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tf_stitch.compiler.packing import decided_by, stands_alone
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.emit.rendered import Packed, Rendered
from tf_stitch.errors import ScheduleError
from tf_stitch.kernel_ir.nodes import Mode, Program
from tf_stitch.kernel_ir.occupancy import launch_bound
from tf_stitch.libraries.call import BoundCall
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.runtime.buffer_plan import BufferPlan, Work
from tf_stitch.runtime.executable import BufferRef, DeviceLaunch, HostLaunch, LibraryStep, Step
from tf_stitch.runtime.executable_format import Space
from tf_stitch.runtime.step_order import Access, predecessors
from tf_stitch.targets.registry import target_of

MAX_PACKED_POINTERS = 480
"""Kernel parameters end at 4 KiB."""


@dataclass(frozen=True)
class Assembly:
    """Steps without the copies at the end, and what they run.

    Attributes:
        programs: what the symbol of each launch runs, in the order of its arguments.
        launches: the symbol that runs each kernel, "" for one without elements.
        rendered: kernels that other sizes share, by symbol; `source` holds them all.
        after: for each step, copies last, the earlier ones it has to wait for; None on a CPU, where they run in turn.
    """

    steps: Sequence[Step]
    source: str
    programs: dict[str, tuple[Program, ...]]
    launches: tuple[str, ...]
    rendered: Mapping[str, Rendered] = field(default_factory=dict)
    after: tuple[tuple[int, ...], ...] | None = None


def assemble(buffers: BufferPlan, device: DeviceSpec, for_all_sizes: bool) -> Assembly:
    """The steps of a region.

    Args:
        for_all_sizes: kernels are named after their text, and get sizes that change as arguments.
    """
    if not device.queued:
        return _for_all_sizes(buffers, None, device) if for_all_sizes else _on_host(buffers, device)
    groups = pack(buffers.kernels, buffers.rounds, for_all_sizes)
    made = (_for_all_sizes if for_all_sizes else _on_device)(buffers, groups, device)
    return replace(made, after=_after(buffers, groups))


def _unique(work: Sequence[Work]) -> tuple[list[tuple[str, Program]], dict[int, int]]:
    """Programs without repetition (F13), named, and the program number of every kernel by its place in `work`."""
    numbers: dict[Program, int] = {}
    which = {i: numbers.setdefault(one.program, len(numbers)) for i, one in enumerate(work)
             if isinstance(one, LoweredKernel)}
    return [(f"stitch_{i}", program) for i, program in enumerate(numbers)], which


def _args(buffers: BufferPlan, work: Work) -> tuple[BufferRef, ...]:
    return tuple(buffers.argument(node, mode) for node, mode in work.arguments)


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
    for i, work in enumerate(buffers.kernels):
        if isinstance(work, BoundCall):
            steps.append(_library_step(work, _args(buffers, work)))
        elif work.program.grid:
            steps.append(HostLaunch(programs[which[i]][0], _args(buffers, work)))
    names = tuple(programs[i][0] if programs[i][1].grid else "" for i in which.values())
    runs: dict[str, tuple[Program, ...]] = {name: (program,) for name, program in programs}
    launches = [Packed(name, (number,)) for number, (name, _) in enumerate(programs)]
    return Assembly(steps, target_of(device).emission.emit(programs, launches) if programs else "", runs, names)


def _on_device(buffers: BufferPlan, groups: Sequence[Sequence[int]], device: DeviceSpec) -> Assembly:
    programs, which = _unique(buffers.kernels)
    steps: list[Step] = []
    launches: dict[tuple[int, ...], Packed] = {}
    names = dict.fromkeys(which, "")
    for group in groups:
        first = buffers.kernels[group[0]]
        if isinstance(first, BoundCall):
            steps.append(_library_step(first, _args(buffers, first)))
            continue
        members = tuple(which[i] for i in group)
        if members not in launches:
            bound = launch_bound([programs[number][1] for number in members], device)
            launches[members] = Packed(f"launch_{len(launches)}", members, bound)
        launch = launches[members]
        names |= dict.fromkeys(group, launch.name)
        args = tuple(a for i in group for a in _args(buffers, buffers.kernels[i]))
        steps.append(_device_launch(launch.name, _kernels(buffers, group), args, steps))
    runs = {launch.name: tuple(programs[i][1] for i in launch.members) for launch in launches.values()}
    source = target_of(device).emission.emit(programs, list(launches.values())) if programs else ""
    return Assembly(steps, source, runs, tuple(names.values()))


def _kernels(buffers: BufferPlan, group: Sequence[int]) -> list[LoweredKernel]:
    return [work for i in group if isinstance(work := buffers.kernels[i], LoweredKernel)]


def _device_launch(symbol: str, kernels: Sequence[LoweredKernel], args: tuple[BufferRef, ...], before: Sequence[Step],
                   sizes: tuple[int, ...] = ()) -> DeviceLaunch:
    """The launch of kernels side by side; a cooperative one, alone, gets counters that no step before it has."""
    grid = int(sum(kernel.program.grid for kernel in kernels))
    first = kernels[0].program
    cooperative = first.cooperative
    if cooperative:
        used = sum(step.grid for step in before if isinstance(step, DeviceLaunch) and step.cooperative)
        args = (*args, BufferRef(Space.BARRIER, used))
    shared = max(kernel.shared_bytes for kernel in kernels)
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
    names = {i: "" for i, work in enumerate(buffers.kernels) if isinstance(work, LoweredKernel)}
    for group in groups if groups is not None else [[i] for i in range(len(buffers.kernels))]:
        first = buffers.kernels[group[0]]
        args = tuple(a for i in group for a in _args(buffers, buffers.kernels[i]))
        if isinstance(first, BoundCall):
            steps.append(_library_step(first, args))
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
        if groups is not None:
            steps.append(_device_launch(launch.symbol, kernels, args, steps, launch.sizes))
        else:
            steps.append(HostLaunch(launch.symbol, args, launch.sizes))
    parts = {name: text for kernel in rendered.values() for name, text in kernel.parts.items()}
    source = target_of(device).emission.join(parts) if parts else ""
    return Assembly(steps, source, runs, tuple(names.values()), rendered)


def pack(works: Sequence[Work], rounds: Sequence[int], for_all_sizes: bool) -> list[list[int]]:
    """Kernel packing (FusionStitching section 5.1): kernels of one round share a launch, if their blocks have equal
    threads and none much shared memory, while their parameters fit; where sizes change, if the same ones decide which
    kernels they are. Library calls and large kernels stand alone. Groups in the order they run."""
    most = MAX_PACKED_POINTERS // (2 if for_all_sizes else 1)  # sizes take room among the parameters too
    groups: dict[tuple[int, int, int, tuple[str, ...]], list[list[int]]] = {}
    for i, work in enumerate(works):
        if isinstance(work, BoundCall):
            groups[rounds[i], 0, i, ()] = [[i]]
            continue
        if not work.program.grid:  # no elements: no work
            continue
        alone = i if stands_alone(work) else -1
        packs = groups.setdefault((rounds[i], work.program.threads, alone, decided_by(work)), [[]])
        together = [one for j in (*packs[-1], i) if isinstance(one := works[j], LoweredKernel)]
        if packs[-1] and sum(len(one.arguments) for one in together) > most:
            packs.append([])
        packs[-1].append(i)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], item[1][0][0]))
    return [pack for _, packs in ordered for pack in packs]
