"""Searches thread space partitions and register bounds by profiling (HFuse, Fig. 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tf_stitch.errors import BuildError
from tf_stitch.hfuse.fuse import Fused, fuse
from tf_stitch.hfuse.launch import Launch, Shape
from tf_stitch.hfuse.source import Kernel

STEP = 128
"""Threads between one partition and the next: other sizes break patterns of memory accesses."""


@dataclass(frozen=True)
class Processor:
    """What a streaming multiprocessor has: registers of 32 bits, bytes of shared memory, threads."""

    registers: int
    shared_bytes: int
    threads: int


@dataclass(frozen=True)
class Profile:
    """A kernel as it was compiled and, unless it was only compiled, how long it took.

    Attributes:
        registers: of a thread.
        shared_bytes: of a block, static.
        local_bytes: of a thread, what registers spilled among it.
    """

    ms: float
    registers: int
    shared_bytes: int
    local_bytes: int


class Profiler(Protocol):
    """Compiles and runs kernels."""

    def alone(self, index: int, shape: Shape) -> Profile:
        """Kernel number `index` as it is."""

    def fused(self, fused: Fused) -> Profile:
        """
        Raises:
            BuildError: it cannot be compiled or launched.
        """


@dataclass(frozen=True)
class Candidate:
    """A configuration that was tried.

    Attributes:
        threads: of the first and the second kernel.
        bound: registers of a thread at most (r0); None: no bound.
        profile: None if it failed.
        problem: why.
    """

    threads: tuple[int, int]
    bound: int | None
    fused: Fused
    profile: Profile | None
    problem: str = ""


def partitions(launches: Sequence[Launch], block: int) -> Iterator[tuple[int, int]]:
    """Threads of the first and the second kernel of a fused block of `block` threads. Two kernels whose blocks are
    given have those, whatever their sum is."""
    one, two = launches
    if not one.tunable and not two.tunable:
        yield one.with_threads(0).threads, two.with_threads(0).threads
        return
    firsts = range(STEP, block, STEP) if one.tunable and two.tunable else \
        [one.with_threads(0).threads] if not one.tunable else [block - two.with_threads(0).threads]
    yield from ((first, block - first) for first in firsts
                if block > first > 0 and one.takes(first) and two.takes(block - first))


def resident_blocks(processor: Processor, alone: Sequence[Profile], threads: tuple[int, int], shared_bytes: int) -> int:
    """b0: blocks of the fused kernel that are to run on a processor at one time; as many as of either kernel alone, but
    for shared memory and threads."""
    by_registers = [processor.registers // (own * max(profile.registers, 1))
                    for own, profile in zip(threads, alone, strict=True)]
    by_memory = [processor.shared_bytes // shared_bytes] if shared_bytes else []
    return min([*by_registers, *by_memory, processor.threads // sum(threads)])


def register_bound(processor: Processor, resident: int, threads: tuple[int, int]) -> int:
    """r0: registers of a thread where this many blocks are to be resident."""
    return processor.registers // (resident * sum(threads))


def search(kernels: Sequence[Kernel], launches: Sequence[Launch], block: int, architecture: str, processor: Processor,
           profiler: Profiler, goes_on: Callable[[], bool] = lambda: True) -> list[Candidate]:
    """Every partition, each without and with the register bound, in that order.

    Args:
        block: d0, threads of the fused kernel's blocks.
        goes_on: asked before each partition but the first; False ends the search.

    Raises:
        SourceError: the kernels cannot be fused.
    """
    found: list[Candidate] = []
    for threads in partitions(launches, block):
        if found and not goes_on():
            break
        shapes = [launch.with_threads(own) for launch, own in zip(launches, threads, strict=True)]
        free = fuse(kernels, shapes, architecture)
        found.append(_try(profiler, threads, None, free))
        profile = found[-1].profile
        if profile is None:
            continue
        alone = [profiler.alone(i, shape) for i, shape in enumerate(shapes)]
        resident = resident_blocks(processor, alone, threads, profile.shared_bytes + free.dynamic_bytes)
        if resident > 1:  # one block may have all registers
            bounded = fuse(kernels, shapes, architecture, resident=resident)
            found.append(_try(profiler, threads, register_bound(processor, resident, threads), bounded))
    return found


def best(candidates: Sequence[Candidate]) -> Candidate:
    """The fastest.

    Raises:
        BuildError: all failed.
    """
    timed = [(c.profile.ms, i) for i, c in enumerate(candidates) if c.profile is not None]
    if not timed:
        raise BuildError("no partition of the fused block can be run: "
                         + "; ".join(sorted({c.problem for c in candidates}) or ["none fits both kernels"]))
    return candidates[min(timed)[1]]


def _try(profiler: Profiler, threads: tuple[int, int], bound: int | None, fused: Fused) -> Candidate:
    try:
        return Candidate(threads, bound, fused, profiler.fused(fused))
    except BuildError as error:
        return Candidate(threads, bound, fused, None, error.message)
