"""Kernels that a region needs for other sizes than those it was compiled for, without compiling it again.

Where sizes change, passes, plan and buffers are the same for many of them (`sized_plans.Decisions`); schedules are not.
So each pattern, one of those of equal structure, gets the other sizes and is scheduled, lowered and rendered again,
once for all sizes that do not occur in it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import TypeAlias

from tf_stitch.compiler.compile_pattern import first_schedule
from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.packing import pack
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.emit.cuda_kernel import needs_wide_indices
from tf_stitch.emit.rendered import Rendered
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import InputAttrs
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.renumbering import Renumbering
from tf_stitch.ir.symbolic_dims import SymbolicDim, dimensions_of
from tf_stitch.lowering.kernel import LoweredKernel, with_bounded_sums
from tf_stitch.lowering.rebind import nodes_of, structure
from tf_stitch.placement.buffer_plan import BufferPlan
from tf_stitch.planning.pattern import Pattern
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.targets.registry import target_of

Values: TypeAlias = tuple[tuple[str, int], ...]


class OtherSizes:
    """Args:
        buffers: of the region for sizes that change.
    """

    def __init__(self, buffers: BufferPlan, options: CompileOptions) -> None:
        self._options, self._works, self._levels = options, buffers.kernels, buffers.levels
        kinds: dict[object, int] = {}
        self._kind = {i: kinds.setdefault(_kind(work), i) for i, work in enumerate(self._works)
                      if isinstance(work, LoweredKernel)}
        self._names = {i: _names(work) for i in kinds.values() if isinstance(work := self._works[i], LoweredKernel)}
        self._lowered: dict[tuple[int, Values], LoweredKernel | None] = {}
        self._made: dict[Hashable, LoweredKernel | None] = {}
        self._rendered: dict[tuple[int, ...], Rendered | None] = {}

    def rendered(self, numbers: Mapping[str, int]) -> dict[str, Rendered]:
        """Kernels by symbol.

        Args:
            numbers: what the sizes' atoms are.
        """
        compiler = PatternCompiler(self._options.device, self._options.aligned, 0, self._options.measured,
                                   self._options.reuse, self._options.templates)
        keys = {i: (kind, tuple((n, numbers[n]) for n in self._names[kind])) for i, kind in self._kind.items()}
        for key in keys.values():
            if key not in self._lowered:
                self._lowered[key] = self._lower(key, compiler)
        works = [self._lowered[keys[i]] or work if i in keys else work for i, work in enumerate(self._works)]
        found: dict[str, Rendered] = {}
        device = self._options.device
        for group in pack(works, self._levels, True, device) if device.queued else [[i] for i in keys]:
            kernels = [self._lowered[keys[i]] for i in group if i in keys]
            members = tuple(map(id, kernels))  # which are kept
            if members not in self._rendered:
                programs = [kernel.program for kernel in kernels if kernel is not None and kernel.program.grid]
                self._rendered[members] = target_of(device).emission.render(programs, device) \
                    if programs and len(programs) == len(members) else None
            launch = self._rendered[members]
            if launch is not None:
                found[launch.symbol] = launch
        return found

    def _lower(self, key: tuple[int, Values], compiler: PatternCompiler) -> LoweredKernel | None:
        """A kernel for other sizes, or one that differs from it in its sizes alone; None where there is none."""
        kind, values = key
        before = self._works[kind]
        assert isinstance(before, LoweredKernel)
        pattern = _resized(before.schedule.pattern, dict(values))
        try:
            schedule = first_schedule(pattern, self._options.device, self._options.aligned)
            decided = kind, None if schedule is None else _decided(schedule)
            if decided not in self._made:
                self._made[decided] = _with_memory_of(before, with_bounded_sums(compiler.kernel(pattern)))
        except ScheduleError:
            return None
        return self._made[decided]


def _decided(schedule: KernelSchedule) -> Hashable:
    """Equal for schedules that become the same kernel."""
    mapping, values = schedule.mapping, (*schedule.pattern.reads(), *schedule.pattern.outputs)
    wide = needs_wide_indices(max(int(n.type.numel) for n in values), int(mapping.grid * mapping.threads))
    return (schedule.text(), schedule.row_room, schedule.array_room, schedule.array_registers, schedule.resident,
            schedule.launched, wide)


def _with_memory_of(before: LoweredKernel, kernel: LoweredKernel) -> LoweredKernel | None:
    """The kernel with what is known of the buffers of one of the same pattern; None if it has others."""
    old, new = before.program.buffers, kernel.program.buffers
    if [b.name for b in old] != [b.name for b in new]:
        return None
    buffers = tuple(replace(b, mode=a.mode, shared=a.shared) for a, b in zip(old, new, strict=True))
    return replace(kernel, program=replace(kernel.program, buffers=buffers))


def _resized(pattern: Pattern, numbers: Mapping[str, int]) -> Pattern:
    """The pattern with other numbers behind its sizes."""
    inside, outside = nodes_of(pattern)
    by = Renumbering(numbers)
    new: dict[Node, Node] = {}
    for i, node in enumerate(outside):
        type_ = by.type(node.type)
        new[node] = Node(OpKind.INPUT, (), InputAttrs(str(i), type_), type_, node.loc)
    for node in inside:
        operands = tuple(new[o] for o in node.operands)
        new[node] = Node(node.kind, operands, by.attrs(node.attrs), by.type(node.type), node.loc)
    free = frozenset(new[n] for n in inside if n in pattern.free)
    return Pattern(tuple(new[n] for n in pattern.nodes), tuple(new[n] for n in pattern.outputs), free)


def _kind(kernel: LoweredKernel) -> object:
    """Equal for kernels that are alike for all sizes: of one structure, of whose buffers the same are one memory."""
    marks = tuple((b.mode, b.shared) for b in kernel.program.buffers)
    return structure(kernel.schedule.pattern)[0], marks


def _names(kernel: LoweredKernel) -> Sequence[str]:
    """The dimensions that a kernel's sizes are made of."""
    found: dict[str, None] = {}
    for node in chain(*nodes_of(kernel.schedule.pattern)):
        attrs = (value for f in fields(node.attrs) if isinstance(value := getattr(node.attrs, f.name), tuple))
        for number in chain(node.type.shape, *attrs):
            if isinstance(number, SymbolicDim):
                found |= dict.fromkeys(dimensions_of(number))
    return list(found)
