"""Programs that share blocks by their threads ("Automatic Horizontal Fusion for GPU Kernels", section 3.1): one's
latency hides behind the other's work. Threads, barriers and shared memory of each are its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tf_stitch.errors import VerifyError
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.array_memory import ALIGNMENT
from tf_stitch.kernel_ir.cost import shared_bytes
from tf_stitch.kernel_ir.rename import renamed
from tf_stitch.kernel_ir.roles import Role, Where, held, names_of
from tf_stitch.kernel_ir.walk import accesses, arrays, rewritten, statements

BARRIERS = 16
"""Of a block; 0 is that of all its threads."""


def side_by_side(programs: Sequence[k.Program], resident: int = 0) -> k.Program:
    """One program whose blocks run a block of each: the first threads those of the first, the next ones those of the
    second. Its parameters are theirs, in order.

    Args:
        resident: blocks that a processor is to hold, a bound on registers; 0: the compiler's choice.

    Raises:
        VerifyError: a program whose threads cannot be part of a block.
    """
    buffers: list[k.Buffer] = []
    ranges: list[k.Stmt] = []
    first = shared = 0
    for number, program in enumerate(programs, 1):
        reason = cannot_be_range(program)
        if reason:
            raise VerifyError(reason)
        names = {b.name: f"k{number}_{b.name}" for b in program.buffers}
        buffers += [replace(b, name=names[b.name], note=program.noted.get(b.note, b.note)) for b in program.buffers]
        body = renamed(program.body, names, program.noted)
        barrier = k.BlockBarrier(number, program.threads)
        body = rewritten(body, lambda stmt, barrier=barrier, at=shared: _own(stmt, barrier, at))  # type: ignore[misc]
        ranges.append(k.ThreadRange(first, program.threads, program.grid, body))
        first += program.threads
        shared += -(-shared_bytes(program) // ALIGNMENT[k.Space.SHARED]) * ALIGNMENT[k.Space.SHARED]
    title = "; ".join(filter(None, (program.title for program in programs)))
    return k.Program(tuple(buffers), max(program.grid for program in programs), first, tuple(ranges), title=title,
                     resident=resident, warp=programs[0].warp)


def _own(stmt: k.Stmt, barrier: k.BlockBarrier, shared: int) -> k.Stmt:
    """A statement with a barrier and shared memory of its range's own."""
    changed = replace(stmt, **dict.fromkeys(names_of(stmt, Role.BARRIER), barrier))
    if isinstance(changed, k.Array) and changed.space is k.Space.SHARED and changed.offset is not None:
        return replace(changed, offset=changed.offset + shared)
    return changed


def cannot_be_range(program: k.Program) -> str:
    """Why a program's threads cannot be part of a block; "" if they can."""
    if program.alone or program.cluster > 1:
        return "blocks that wait for each other, or take turns"
    if program.threads % program.warp or program.warp == 1:
        return f"{program.threads} threads are no whole warps of {program.warp}"
    for stmt in statements(program.body):
        if _waits_unknown(stmt):
            return f"{type(stmt).__name__} is for a whole block"
    return ""


def _waits_unknown(stmt: k.Stmt) -> bool:
    """Whether all threads of a block come to a statement, at barriers that nobody can tell from outside."""
    return stmt.where is Where.TOGETHER and not names_of(stmt, Role.BARRIER)


def verify_ranges(program: k.Program) -> None:
    """Thread ranges are all of the block, in whole warps. No barrier of one waits for threads that never come: as many
    wait as the range has, all of which come there (which is verified of each range as of a block), and nobody else
    comes to a barrier of its number. Memory of one is none of the other's.

    Raises:
        VerifyError: the first violation.
    """
    owners: dict[int, int] = {}
    first = 0
    for number, stmt in enumerate(program.body):
        if not isinstance(stmt, k.ThreadRange):
            raise VerifyError(f"{type(stmt).__name__} beside thread ranges")
        _require(stmt.first == first, f"threads {first} to {stmt.first} are in no range, or in two")
        _require(stmt.threads > 0 and program.warp > 1 and stmt.threads % program.warp == 0,
                 f"a range of {stmt.threads} threads is no whole warps of {program.warp}")
        _require(0 <= stmt.blocks <= program.grid, f"{stmt.blocks} blocks of {program.grid}")
        for inner in statements(stmt.body):
            _require(not _waits_unknown(inner), f"{type(inner).__name__} in a thread range")
            for barrier in held(inner, Role.BARRIER):
                _require(0 < barrier.id < BARRIERS, f"a thread range waits at barrier {barrier.id}")
                _require(barrier.threads == stmt.threads,
                         f"a barrier of {barrier.threads} threads in a range of {stmt.threads}")
                _require(owners.setdefault(barrier.id, number) == number, f"two ranges wait at barrier {barrier.id}")
        first += stmt.threads
    _require(first == program.threads, f"ranges of {first} threads in blocks of {program.threads}")
    _require(program.cluster == 1, "a cluster of partitioned blocks")
    _verify_memory(program)


def _verify_memory(program: k.Program) -> None:
    phases = list(program.phases())
    for i, one in enumerate(phases):
        for other in phases[:i]:
            for a in arrays(one.body, k.Space.SHARED):
                for b in arrays(other.body, k.Space.SHARED):
                    _require(a.offset is None or b.offset is None or a.offset >= b.offset + b.nbytes
                             or b.offset >= a.offset + a.nbytes, f"{a.name} and {b.name} of two ranges share memory")
            written = {x.buffer for phase in (one, other) for x in accesses(phase.body) if x.write}
            both = {x.buffer for x in accesses(one.body)} & {x.buffer for x in accesses(other.body)}
            _require(not written & both, f"{written & both}: written in one range, touched in another")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise VerifyError(message)
