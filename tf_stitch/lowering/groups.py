"""Lowers groups that hand values to each other through device memory: grid loops with grid barriers between them
(AStitch's global scheme, section 3.2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tf_stitch.ir.graph import Node
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.rename import renamed
from tf_stitch.kernel_ir.walk import arrays
from tf_stitch.lowering.kernel import LoweredKernel, title, user_nodes
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.schemes import value_schemes


def fuse_groups(schedule: KernelSchedule, groups: Sequence[Sequence[LoweredKernel]]) -> LoweredKernel:
    """One kernel of `groups`, the kernels of schedule.groups."""
    buffers = _SharedBuffers(groups)
    body: list[k.Stmt] = []
    forwards = False  # what the last grid-stride loops did; the next ones run in reverse
    for i, together in enumerate(groups):
        if i:
            body.append(k.GridBarrier())
        strides = any(kernel.program.grid > schedule.mapping.grid for kernel in together)
        for kernel in together:
            program = kernel.program
            statements = renamed(program.body, buffers.names(kernel), program.noted)
            if any(arrays(statements, k.Space.SHARED)):
                statements += (k.Barrier(),)  # the next block uses the same memory
            body.append(k.Comment(f"group {i + 1} of {len(groups)}", user_nodes(kernel.schedule.pattern)))
            body.append(k.GridLoop(program.grid, statements, strides and forwards))
        forwards ^= strides
    program = k.Program(buffers.buffers, schedule.mapping.grid, schedule.mapping.threads, tuple(body),
                        title=title(schedule.pattern), resident=schedule.resident, warp=schedule.mapping.warp)
    return LoweredKernel(replace(schedule, schemes=value_schemes(schedule)), program, buffers.arguments)


def in_groups(kernel: LoweredKernel) -> LoweredKernel:
    """A kernel whose rows are shared by several blocks, as a grid loop: those of a row are resident together."""
    schedule, program = kernel.schedule, kernel.program
    group = schedule.mapping.row_blocks
    body = program.body
    if any(arrays(body, k.Space.SHARED)):
        body += (k.Barrier(),)
    loop = k.GridLoop(program.grid, body, group=group)
    return replace(kernel, program=replace(program, grid=schedule.launched, body=(loop,), resident=schedule.resident))


def in_clusters(kernel: LoweredKernel) -> LoweredKernel:
    """A kernel whose rows are shared by the blocks of a cluster."""
    schedule = kernel.schedule
    return replace(kernel, program=replace(kernel.program, cluster=schedule.mapping.row_blocks,
                                           resident=schedule.resident))


class _SharedBuffers:
    """The parameters of a kernel of groups: one for each value, whichever groups write and read it."""

    def __init__(self, groups: Sequence[Sequence[LoweredKernel]]) -> None:
        kernels = [kernel for together in groups for kernel in together]
        written = {node for kernel in kernels for node, mode in kernel.arguments if mode is not k.Mode.READ}
        read = {node for kernel in kernels for node, mode in kernel.arguments if mode is k.Mode.READ}
        self._name: dict[Node, str] = {}
        self._tables: dict[tuple[int, str], str] = {}
        found: list[k.Buffer] = []
        arguments: list[tuple[Node, k.Mode]] = []
        for kernel in kernels:
            for node, buffer in _parameters(kernel):
                if node in self._name:
                    continue
                mode = k.Mode.READ if node not in written else k.Mode.SCRATCH if node in read else k.Mode.WRITE
                self._name[node] = f"{mode.value}{len(found)}"
                note = kernel.program.noted.get(buffer.note, buffer.note)
                found.append(replace(buffer, name=self._name[node], mode=mode, note=note))
                arguments.append((node, k.Mode.READ if mode is k.Mode.READ else k.Mode.WRITE))
        for kernel in kernels:
            for buffer in kernel.program.buffers:
                if buffer.constant is not None:
                    name = self._tables[id(kernel), buffer.name] = f"table{len(found)}"
                    found.append(replace(buffer, name=name))
        self.buffers, self.arguments = tuple(found), tuple(arguments)

    def names(self, kernel: LoweredKernel) -> dict[str, str]:
        """Each buffer of a group's own kernel -> the fused kernel's."""
        names = {buffer.name: self._name[node] for node, buffer in _parameters(kernel)}
        return names | {b.name: self._tables[id(kernel), b.name] for b in kernel.program.buffers
                        if b.constant is not None}


def _parameters(kernel: LoweredKernel) -> list[tuple[Node, k.Buffer]]:
    return [(node, buffer) for (node, _), buffer in zip(kernel.arguments, kernel.program.parameters, strict=True)]
