"""Bytes that a kernel has to move, from the accesses of its work."""

from __future__ import annotations

from collections.abc import Sequence

from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.count_work import count_work
from tf_stitch.kernel_ir.work import Work


def moved_bytes(program: k.Program, work: Work) -> int:
    """Bytes between the kernel and memory if every element that it touches moves once in each direction."""
    return _moved(program, [(program, work)])


def moved_once(program: k.Program) -> int:
    """The same of all phases together: what several read, or one leaves to another, moves once in each direction."""
    return _moved(program, [(phase, count_work(phase)) for phase in program.phases()])


def _moved(program: k.Program, phases: Sequence[tuple[k.Program, Work]]) -> int:
    touched: dict[tuple[str, bool], float] = {}
    for phase, work in phases:
        for a in work.accesses:
            touched[a.buffer, a.store] = (touched.get((a.buffer, a.store), 0.0)
                                          + a.distinct * phase.grid * phase.threads)
    sizes = {b.name: (b.size, b.dtype.size) for b in program.parameters}
    return round(sum(min(count, sizes[name][0]) * sizes[name][1] for (name, _), count in touched.items()))
