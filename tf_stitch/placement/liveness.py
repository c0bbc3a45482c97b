"""From when to when kernels need their arguments, inside a kernel with grid barriers too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from tf_stitch.ir.graph import Node
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.walk import accesses
from tf_stitch.libraries.call import BoundCall
from tf_stitch.lowering.kernel import LoweredKernel


class Need(NamedTuple):
    """A kernel needs an argument from time `first` to `last`."""

    node: Node
    mode: k.Mode
    first: int
    last: int


def needed(kernels: Sequence[LoweredKernel | BoundCall], levels: Sequence[int]) -> Iterator[list[Need]]:
    """For each kernel, its arguments. Time is counted in levels, and where a kernel has grid barriers, by these inside
    its level: what its groups hand to each other may share memory. Of several such kernels in a level that is so for
    the first alone: it is unknown when the others come to their barriers."""
    parts = {i: found for i, kernel in enumerate(kernels) if len(found := scratch_parts(kernel)) > 1}
    first_of = {levels[i]: i for i in reversed(parts)}
    length = [len(parts[first_of[r]]) if r in first_of else 1 for r in range(max(levels, default=-1) + 1)]
    begin = list(accumulate(length, initial=0))
    for i, kernel in enumerate(kernels):
        start, end = begin[levels[i]], begin[levels[i] + 1] - 1
        names: list[str] = []
        if isinstance(kernel, LoweredKernel) and first_of.get(levels[i]) == i:
            names = [b.name for b in kernel.program.parameters]
        needs = []
        for j, (node, mode) in enumerate(kernel.arguments):
            at = [start + p for p, touched in enumerate(parts[i]) if names[j] in touched] if names else []
            needs.append(Need(node, mode, min(at, default=start), max(at, default=end)))
        yield needs


def scratch_parts(kernel: LoweredKernel | BoundCall) -> list[set[str]]:
    """Between two grid barriers each, the buffers touched that groups of a kernel hand to each other. Others may be
    known to the compiler as nobody else's memory."""
    if isinstance(kernel, BoundCall) or not any(isinstance(s, k.GridBarrier) for s in kernel.program.body):
        return []
    scratch = {b.name for b in kernel.program.buffers if b.mode is k.Mode.SCRATCH}
    parts: list[set[str]] = [set()]
    for stmt in kernel.program.body:
        if isinstance(stmt, k.GridBarrier):
            parts.append(set())
        parts[-1] |= scratch & {a.buffer for a in accesses([stmt])}
    return parts
