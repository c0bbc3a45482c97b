"""Which kernels write over what they read: an input, a variable, an operand that nobody reads later."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from tf_stitch.families.registry import family_of
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import InputAttrs, ScatterAttrs, VariableAttrs
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.self_copies import without_self_copies
from tf_stitch.libraries.call import BoundCall
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.placement.buffer_plan import BufferPlan
from tf_stitch.placement.executable import BufferRef
from tf_stitch.placement.executable_format import Space
from tf_stitch.schedule.kernel_schedule import KernelSchedule

WORTH_REUSING = 1 << 16
"""Bytes of a value from which on its kernel writes over an operand where it can: a smaller one is not worth another
variant of a kernel."""


def update_input(plan: BufferPlan, value: Node, output: int, live_out: Sequence[Node]) -> bool:
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


def update_variable(plan: BufferPlan, value: Node, variable: int) -> bool:
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


def reuse_operands(plan: BufferPlan, copied: Collection[Node]) -> None:
    """Lets kernels write over operands that nobody else reads then or later.

    Args:
        copied: values that are read after all kernels.
    """
    readers = _readers_in_arena(plan)
    taken = set(copied)
    for i, kernel in enumerate(plan.kernels):
        for value in [node for node, mode in kernel.arguments if mode is k.Mode.WRITE]:
            if value in plan.place or value.type.typical_bytes < WORTH_REUSING:
                continue
            for operand in [node for node, mode in kernel.arguments if mode is k.Mode.READ and node in readers]:
                last = all(plan.levels[j] < plan.levels[i] for j in readers[operand] if j != i)
                if last and operand not in taken and plan.writer[operand] != i and operand.type == value.type \
                        and _write_over(plan, i, value, operand):
                    taken.add(operand)
                    break


def _readers_in_arena(plan: BufferPlan) -> dict[Node, list[int]]:
    """The kernels that read each value of the arena."""
    readers: dict[Node, list[int]] = {}
    for i, kernel in enumerate(plan.kernels):
        for node, mode in kernel.arguments:
            if mode is k.Mode.READ and node in plan.writer and node not in plan.place:
                readers.setdefault(node, []).append(i)
    return readers


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
