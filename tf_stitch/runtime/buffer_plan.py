"""Places every value of a region: outputs, variables in place where that is safe, the rest in one arena by lifetime."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tf_stitch.errors import ScheduleError
from tf_stitch.families.registry import family_of
from tf_stitch.ir.graph import Node, TensorGraph, view_of
from tf_stitch.ir.op_attrs import AssignAttrs, InputAttrs, ScatterAttrs, VariableAttrs
from tf_stitch.ir.op_kinds import CALLED, OpKind
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.self_copies import without_self_copies
from tf_stitch.libraries.call import BoundCall
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.runtime.arena import Lifetime, live_bytes, plan_arena
from tf_stitch.runtime.executable import ALIGNMENT, BufferRef, Copy
from tf_stitch.runtime.executable_format import Space, StateMode
from tf_stitch.runtime.known_accesses import KnownAccesses
from tf_stitch.runtime.memory_order import order_steps
from tf_stitch.runtime.needed import needed
from tf_stitch.runtime.rounds import Touch
from tf_stitch.schedule.kernel_schedule import KernelSchedule

Work: TypeAlias = LoweredKernel | BoundCall

SMALL_BYTES = 1 << 12
"""A variable's new value up to this size is copied over the old one in the end where it cannot be written there: a
fresh buffer would have another address in every call, and a CUDA graph's nodes hold addresses."""

WORTH_REUSING = 1 << 16
"""Bytes of a value from which on its kernel writes over an operand where it can: a smaller one is not worth another
variant of a kernel."""


@dataclass
class BufferPlan:
    """Where values live. `kernels` are the given ones, perhaps in another order, parameters updated in place marked so;
    kernels of one of the `rounds` may run at the same time.

    Attributes:
        kernels: in the order in which they run.
        updated: (output, input): the output's memory holds the input's value before all kernels, and is updated.
        writer: the kernel that writes a node.
        readers: the kernels that have a variable among their arguments, ascending.
        copied: what is copied after all kernels, and to where; `copies` says from where once values are placed.
        reused: values of the arena that are written over another that nobody reads later, and that other.
        arena: bytes of each segment.
        live_bytes: what the arena's values take at one time, at most.
        lives: when each of these values is there, by the first value in its memory.
        accesses: of the kernels to their parameters.
    """

    kernels: list[Work]
    inputs: tuple[str, ...]
    variables: tuple[str, ...]
    place: dict[Node, BufferRef] = field(default_factory=dict)
    state: list[tuple[int, StateMode]] = field(default_factory=list)
    updated: list[tuple[int, int]] = field(default_factory=list)
    copied: list[tuple[BufferRef, Node]] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)  # after all kernels
    rounds: list[int] = field(default_factory=list)
    reused: dict[Node, Node] = field(default_factory=dict)
    arena: tuple[int, ...] = ()
    live_bytes: int = 0
    lives: dict[Node, Lifetime] = field(default_factory=dict, repr=False, compare=False)
    writer: dict[Node, int] = field(default_factory=dict)
    readers: dict[str, list[int]] = field(default_factory=dict)
    accesses: KnownAccesses = field(default_factory=KnownAccesses, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._input = {key: i for i, key in enumerate(self.inputs)}
        self._variable = {handle: i for i, handle in enumerate(self.variables)}
        for i, kernel in enumerate(self.kernels):
            for node, mode in kernel.arguments:
                if mode is k.Mode.WRITE:
                    self.writer.setdefault(node, i)
                if isinstance(node.attrs, VariableAttrs):
                    self.readers.setdefault(node.attrs.handle, []).append(i)

    def argument(self, node: Node, mode: k.Mode) -> BufferRef:
        """Where a kernel finds or leaves `node`."""
        if mode is k.Mode.READ and isinstance(node.attrs, InputAttrs):
            return self.place.get(node) or BufferRef(Space.INPUT, self._input[node.attrs.key])
        if mode is k.Mode.READ and isinstance(node.attrs, VariableAttrs):
            return BufferRef(Space.VARIABLE, self._variable[node.attrs.handle])
        return self.place[node]

    @property
    def copying(self) -> list[Node]:
        """Scatters that were to lie where what was there before does, and copy it: somebody reads that later."""
        return [node for node in self.writer if isinstance(node.attrs, ScatterAttrs) and node.attrs.in_place
                and self._memory(node) != self._memory(node.operands[0])]

    def _memory(self, node: Node) -> BufferRef | Node:
        """The place of a value outside of the arena; in it, the first value that lies where it does."""
        while node in self.reused:
            node = self.reused[node]
        outside = node in self.place or node.kind in (OpKind.INPUT, OpKind.VARIABLE)
        return self.argument(node, k.Mode.READ) if outside else node

    @property
    def updating(self) -> frozenset[Node]:
        """Scatters that lie where what was there before does."""
        copying = set(self.copying)
        return frozenset(node for node in self.writer if isinstance(node.attrs, ScatterAttrs) and node.attrs.in_place
                         and node not in copying)

    def reading(self, node: Node) -> list[int]:
        """The kernels that read `node`, ascending."""
        return [i for i, kernel in enumerate(self.kernels) if (node, k.Mode.READ) in kernel.arguments]


def plan_buffers(graph: TensorGraph, kernels: Sequence[Work], inputs: tuple[str, ...],
                 variables: tuple[str, ...], packed: bool = False) -> BufferPlan:
    """As decide_storage and place_values."""
    return place_values(decide_storage(graph, kernels, inputs, variables, packed))


def decide_storage(graph: TensorGraph, kernels: Sequence[Work], inputs: tuple[str, ...],
                   variables: tuple[str, ...], packed: bool) -> BufferPlan:
    """Which values lie in outputs, in variables, and over an operand; what is copied in the end, since no kernel writes
    it there; and which kernels run at the same time. Nothing has a place in the arena yet.

    Args:
        kernels: in an order in which they can run.
        packed: kernels that do not depend on each other run at the same time, else one after the other.
        inputs, variables: keys and handles in the op's order.
    """
    plan = BufferPlan(list(kernels), inputs, variables)
    output_number = 0
    copies = plan.copied
    live_out = [node for _, node in graph.outputs]
    for _, node in graph.outputs:
        if node.kind is not OpKind.ASSIGN:
            if not _update_input(plan, node, output_number, live_out):
                _store_live_out(plan, copies, node, BufferRef(Space.OUTPUT, output_number))
            output_number += 1
    copied, by_calls = _copied_variables(graph), {
        node for w in kernels if isinstance(w, BoundCall) for node, mode in w.arguments if mode is k.Mode.WRITE}
    number = {handle: i for i, handle in enumerate(variables)}
    for _, node in graph.outputs:
        if isinstance(node.attrs, AssignAttrs):
            _assign(plan, copies, node, number[node.attrs.handle], copied, by_calls)
    order = order_steps([_touches(plan, kernel) for kernel in kernels], {node for _, node in copies}, packed)
    plan = replace(plan, kernels=[plan.kernels[i] for i in order.steps], rounds=list(order.rounds), writer={},
                   readers={})
    _reuse_operands(plan, {node for _, node in copies})
    return plan


def place_values(decided: BufferPlan) -> BufferPlan:
    """A place for every value, those in the arena by lifetimes.

    Args:
        decided: by decide_storage.

    Raises:
        ScheduleError: a kernel that writes rows alone of a tensor which cannot lie where it did before.
    """
    for node in decided.copying:
        if isinstance(node.attrs, ScatterAttrs) and node.attrs.rows_only:
            raise ScheduleError("rows alone of a tensor that lies elsewhere", node.loc)
    plan = replace(decided, place=dict(decided.place))
    _plan_arena(plan, [node for _, node in plan.copied])
    plan.copies = [Copy(target, plan.argument(node, k.Mode.READ), int(node.type.nbytes))
                   for target, node in plan.copied]
    return plan


def _copied_variables(graph: TensorGraph) -> set[str]:
    """Handles whose old value is live-out as it is: by a copy after all kernels."""
    values = [n.operands[0] if n.kind is OpKind.ASSIGN else n for _, n in graph.outputs]
    return {n.attrs.handle for n in values if isinstance(n.attrs, VariableAttrs)}


def _store_live_out(plan: BufferPlan, copies: list[tuple[BufferRef, Node]], node: Node, target: BufferRef) -> None:
    if view_of(node).category in CALLED:
        node = view_of(node)
    if node in plan.place or node.kind in (OpKind.INPUT, OpKind.VARIABLE):
        copies.append((target, node))
    else:
        plan.place[node] = target


def _update_input(plan: BufferPlan, value: Node, output: int, live_out: Sequence[Node]) -> bool:
    """Whether an output is an input that scatters update one after the other, each in place. If so, the kernels'
    parameters are marked, and all of these values lie in the output's memory."""
    links = _in_place_chain(value)
    if not links:
        return False
    root = links[-1].operands[0]
    if not isinstance(root.attrs, InputAttrs) or root.type != value.type or root in plan.place \
            or any(live_out.count(node) != (node is value) for node in (root, *links)):
        return False
    kernels: dict[int, LoweredKernel] = {}
    for link in links:
        writer, one_memory = plan.writer[link], {(link.operands[0], k.Mode.READ), (link, k.Mode.WRITE)}
        if writer in kernels or any(i > writer for i in plan.reading(link.operands[0])):
            return False
        kernel = _updating(plan, writer, lambda *argument, among=one_memory: argument in among, reads=True)
        if kernel is None:
            return False
        kernels[writer] = kernel
    for writer, kernel in kernels.items():
        plan.kernels[writer] = kernel
    plan.place |= dict.fromkeys((root, *links), BufferRef(Space.OUTPUT, output))
    plan.updated.append((output, plan.inputs.index(root.attrs.key)))
    return True


def _in_place_chain(value: Node) -> list[Node]:
    """Scatters in place of which each but the first updates what the one before gives, the last one first."""
    chain: list[Node] = []
    while isinstance(value.attrs, ScatterAttrs) and value.attrs.in_place:
        chain.append(value)
        value = value.operands[0]
    return chain


def _assign(plan: BufferPlan, copies: list[tuple[BufferRef, Node]], assign: Node, variable: int,
            copied: set[str], by_calls: set[Node]) -> None:
    """Args:
        by_calls: values that library calls write, which read their operands while they do.
    """
    value = assign.operands[0]
    outside = value in plan.place or value.kind in (OpKind.INPUT, OpKind.VARIABLE) \
        or not by_calls.isdisjoint((value, view_of(value)))
    in_place = BufferRef(Space.VARIABLE, variable)
    if plan.variables[variable] not in copied and not outside:
        if _update_in_place(plan, value, variable):
            plan.state.append((variable, StateMode.IN_PLACE))
            return _store_live_out(plan, copies, value, in_place)
        if value.type.nbytes <= SMALL_BYTES:
            plan.state.append((variable, StateMode.IN_PLACE))
            copies.append((in_place, value))
            return None
    plan.state.append((variable, StateMode.FRESH))
    return _store_live_out(plan, copies, value, BufferRef(Space.FRESH, len(plan.state) - 1))


def _update_in_place(plan: BufferPlan, value: Node, variable: int) -> bool:
    """Whether the kernel that writes `value` may write over the variable: it is the last to read it, and reads each
    element only in the iteration that writes it, before it does, or to copy it to where it is then (a scatter, which
    needs no copy). If so, the kernel's parameters are marked as updated."""
    handle = plan.variables[variable]
    writer, readers = plan.writer[value], plan.readers.get(handle, [])
    if any(i > writer for i in readers):
        return False
    kernel = _updating(plan, writer, lambda n, mode: _is_variable(n, handle) or (n is value and mode is k.Mode.WRITE),
                       writer in readers)
    if kernel is None:
        return False
    plan.kernels[writer] = kernel
    return True


def _updating(plan: BufferPlan, writer: int, is_updated: Callable[[Node, k.Mode], bool], reads: bool
              ) -> LoweredKernel | None:
    """A kernel that may write over what it reads, its parameters marked so; None if it may not.

    Args:
        is_updated: of its arguments, those that are one memory.
        reads: it reads them.
    """
    kernel = plan.kernels[writer]
    assert isinstance(kernel, LoweredKernel), "what a library call computes is not written in place"
    names = [p.name for p, argument in zip(kernel.program.parameters, kernel.arguments, strict=True)
             if is_updated(*argument)]
    if reads and not _one_access_each(plan, kernel, set(names)):
        program = without_self_copies(kernel.program, names)
        if any(not write for _, write in plan.accesses.of(program.body, names)):
            return None
        kernel = replace(kernel, program=program)
    buffers = tuple(replace(b, mode=k.Mode.UPDATE) if b.name in names else b for b in kernel.program.buffers)
    return replace(kernel, program=replace(kernel.program, buffers=buffers))


def _one_access_each(plan: BufferPlan, kernel: LoweredKernel, names: set[str]) -> bool:
    """Whether every element of `names` is last read in the iteration that writes it, before it does. What groups read
    that a grid barrier separates from the writing one is read in time."""
    if not kernel.schedule.groups:
        return _reads_before_it_writes(plan, kernel.program.body, kernel.schedule, names)
    loops = [s for s in kernel.program.body if isinstance(s, k.GridLoop)]
    groups = [(phase, group) for phase, together in enumerate(kernel.schedule.groups) for group in together]
    touching = [(phase, group, loop) for (phase, group), loop in zip(groups, loops, strict=True)
                if plan.accesses.of(loop.body, names)]
    (last, group, loop), rest = touching[-1], touching[:-1]
    written_before = any(wrote for _, _, other in rest for _, wrote in plan.accesses.of(other.body, names))
    return (not written_before and all(phase < last for phase, _, _ in rest)
            and _reads_before_it_writes(plan, loop.body, group, names))


def _reads_before_it_writes(plan: BufferPlan, body: Sequence[k.Stmt], schedule: KernelSchedule, names: set[str]
                            ) -> bool:
    found = plan.accesses.of(body, names)
    writes = [wrote for _, wrote in found]
    return family_of(schedule).in_place and len({index for index, _ in found}) == 1 and writes == sorted(writes)


def _reuse_operands(plan: BufferPlan, copied: Collection[Node]) -> None:
    """Lets kernels write over operands that nobody else reads then or later.

    Args:
        copied: values that are read after all kernels.
    """
    readers: dict[Node, list[int]] = {}
    for i, kernel in enumerate(plan.kernels):
        for node, mode in kernel.arguments:
            if mode is k.Mode.READ and node in plan.writer and node not in plan.place:
                readers.setdefault(node, []).append(i)
    taken = set(copied)
    for i, kernel in enumerate(plan.kernels):
        for value in [node for node, mode in kernel.arguments if mode is k.Mode.WRITE]:
            if value in plan.place or value.type.typical_bytes < WORTH_REUSING:
                continue
            for operand in [node for node, mode in kernel.arguments if mode is k.Mode.READ and node in readers]:
                last = all(plan.rounds[j] < plan.rounds[i] for j in readers[operand] if j != i)
                if last and operand not in taken and plan.writer[operand] != i and operand.type == value.type \
                        and _write_over(plan, i, value, operand):
                    taken.add(operand)
                    break


def _write_over(plan: BufferPlan, i: int, value: Node, operand: Node) -> bool:
    """Whether a kernel may write a value over an operand; the two are then marked as the same memory."""
    kernel = plan.kernels[i]
    if isinstance(kernel, BoundCall):
        return False
    names = {p.name for p, (node, _) in zip(kernel.program.parameters, kernel.arguments, strict=True)
             if node in (operand, value)}
    if not _one_access_each(plan, kernel, names):
        return False
    buffers = tuple(replace(b, shared=True) if b.name in names else b for b in kernel.program.buffers)
    plan.kernels[i] = replace(kernel, program=replace(kernel.program, buffers=buffers))
    plan.reused[value] = operand
    return True


def _is_variable(node: Node, handle: str) -> bool:
    return isinstance(node.attrs, VariableAttrs) and node.attrs.handle == handle


def _touches(plan: BufferPlan, kernel: Work) -> list[Touch]:
    """Values that will live in the arena are told apart by node, all others by place."""
    found = []
    for node, mode in kernel.arguments:
        if node in plan.place or node.kind in (OpKind.INPUT, OpKind.VARIABLE):
            found.append(Touch(plan.argument(node, mode), mode is k.Mode.WRITE))
        else:
            nbytes = None if isinstance(node.type.nbytes, SymbolicDim) else int(node.type.nbytes)
            found.append(Touch(node, mode is k.Mode.WRITE, nbytes))
    return found


def _plan_arena(plan: BufferPlan, copied: Sequence[Node]) -> None:
    """Places what no other place takes, by lifetimes; those of `copied` last to the end."""
    life: dict[Node, list[int]] = {}
    times = list(needed(plan.kernels, plan.rounds))
    for mine in times:
        for node, mode, first, last in mine:
            memory = memory_of(node, plan)
            if node in plan.place or (mode is k.Mode.READ and memory not in life):
                continue
            life.setdefault(memory, []).extend((first, last))
    end = max((last for mine in times for _, _, _, last in mine), default=0)
    for node in copied:
        if memory_of(node, plan) in life:
            life[memory_of(node, plan)].append(end)
    lifetimes = [Lifetime(-(-max(int(node.type.nbytes), 1) // ALIGNMENT) * ALIGNMENT, min(at), max(at))
                 for node, at in life.items()]
    arena = plan_arena(lifetimes)
    plan.place.update({node: BufferRef(Space.ARENA, offset) for node, offset in zip(life, arena.offsets, strict=True)})
    plan.place.update({node: plan.place[memory_of(node, plan)] for node in plan.reused})
    plan.arena, plan.live_bytes = arena.segments, live_bytes(lifetimes)
    plan.lives = dict(zip(life, lifetimes, strict=True))


def memory_of(node: Node, plan: BufferPlan) -> Node:
    """The first value in the memory of one of the arena."""
    while node in plan.reused:
        node = plan.reused[node]
    return node
