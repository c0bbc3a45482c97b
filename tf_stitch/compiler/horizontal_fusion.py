"""Kernels that share blocks by their threads (HFuse, section 3.2): which pairs a model proposes, and which of their
partitions, if any, measures faster than two launches. Nothing is fused that was not measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations, product
from statistics import median
from typing import TypeAlias

from tf_stitch.compiler.block_threads import with_threads
from tf_stitch.compiler.template_tuner import ROUNDS, TimePrograms, text_of
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import BuildError, ScheduleError
from tf_stitch.families.registry import lower
from tf_stitch.ir.symbolic_dims import SymbolicDim
from tf_stitch.kernel_ir.cost import shared_bytes
from tf_stitch.kernel_ir.nodes import Mode, Program
from tf_stitch.kernel_ir.occupancy import blocks_that_fit
from tf_stitch.kernel_ir.thread_ranges import cannot_be_range, side_by_side
from tf_stitch.lowering.kernel import LoweredKernel
from tf_stitch.planning.cost_model import predict_us, resident_blocks
from tf_stitch.planning.measured_cost import measurement_key, saves
from tf_stitch.planning.measured_fusions import MeasuredFusion, MeasuredFusions
from tf_stitch.runtime.buffer_plan import Work
from tf_stitch.schedule.kernel_schedule import MAX_THREADS

STEP = 128
"""Threads of a part are a multiple: other sizes break patterns of memory accesses (HFuse, section 3.2)."""
TWO_BARRIERS = 3
"""Barriers that a block has to have: one for each part beside its own."""
MOST_TOGETHER = 24
"""Kernels of a round that pairs are made of, the first ones: pairs grow with their square."""

Pair: TypeAlias = tuple[LoweredKernel, LoweredKernel]
Numbers: TypeAlias = tuple[int, int]
TimeApart: TypeAlias = Callable[[Sequence[Program]], float]
"""Microseconds of programs in launches of their own, the faster of one behind the other and at one time."""


@dataclass(frozen=True)
class Partition:
    """A pair in blocks of the threads of both.

    Attributes:
        resident: blocks that a processor is to hold (r0 follows from it); 0: the compiler's choice.
    """

    kernels: Pair
    resident: int = 0

    @property
    def program(self) -> Program:
        return side_by_side([kernel.program for kernel in self.kernels], self.resident)

    @property
    def threads(self) -> Numbers:
        one, two = (kernel.program.threads for kernel in self.kernels)
        return one, two


def proposals(works: Sequence[Work], rounds: Sequence[int], groups: Sequence[Sequence[int]], device: DeviceSpec
              ) -> list[tuple[float, Numbers]]:
    """Pairs of launches that need not wait for each other and are predicted to gain, with the microseconds: the most
    first. A kernel may be in several.

    Args:
        groups: of works that share a launch; pairs are of those alone in theirs.
    """
    found = []
    for numbers in _independent(works, rounds, groups, device):
        partition = _partition(pair_of(works, numbers), 0, device)
        if partition is not None:
            apart = sum(predict_us(kernel.program, device) for kernel in partition.kernels)
            together = predict_us(partition.program, device)
            if saves(apart, together):
                found.append((apart - together, numbers))
    return sorted(found, reverse=True)


def fused_launches(works: Sequence[Work], rounds: Sequence[int], groups: Sequence[Sequence[int]], device: DeviceSpec,
                   measured: MeasuredFusions, aligned: bool) -> dict[Numbers, Partition]:
    """Disjoint pairs of launches that were measured to be faster in one, those that save most first."""
    known = []
    for i, j in _independent(works, rounds, groups, device) if len(measured) else ():
        pair = pair_of(works, (i, j))
        record = measured.get(fusion_key(pair, aligned))
        if record is not None and record.is_faster and record.kernels == _texts(pair):
            known.append((record.apart_us - record.together_us, (i, j), record))
    chosen: dict[Numbers, Partition] = {}
    for _, (i, j), record in sorted(known, key=lambda one: one[:2], reverse=True):
        if not {i, j} & {k for pair in chosen for k in pair}:
            possible = partitions(pair_of(works, (i, j)), device)
            found = [p for p in possible if (p.threads, p.resident) == (record.threads, record.resident)]
            if found:
                chosen[i, j] = found[0]
    return chosen


def partitions(pair: Pair, device: DeviceSpec) -> Iterator[Partition]:
    """Every partition of blocks of both, without and with a bound on registers that keeps as many blocks resident as of
    either kernel alone."""
    for kernels in product(*(list(_resized(kernel)) for kernel in pair)):
        free = _partition((kernels[0], kernels[1]), 0, device)
        if free is not None:
            yield free
            resident = _resident(free, device)
            if resident > 1:
                yield Partition(free.kernels, resident)


def measure_pair(pair: Pair, device: DeviceSpec, time: TimePrograms, apart: TimeApart,
                 go_on: Callable[[], bool] = lambda: True) -> MeasuredFusion | None:
    """The fastest partition, against two launches once more, in turns.

    Returns:
        None if time ran out, or nothing could be timed.

    Raises:
        BuildError: the launches cannot be built.
    """
    separate = [kernel.program for kernel in pair]
    times: list[tuple[float, int, Partition]] = []
    for number, partition in enumerate(partitions(pair, device)):
        if not go_on():
            return None
        us = _timed(partition, time)
        times += [(us, number, partition)] if us is not None else []
    if not times:
        return None
    best = min(times)[-1]
    turns = [(apart(separate), _timed(best, time)) for _ in range(ROUNDS)]
    together = [us for _, us in turns if us is not None]
    if not together:
        return None
    return MeasuredFusion(_texts(pair), best.threads, best.resident, round(median(us for us, _ in turns), 3),
                          round(median(together), 3), len(times))


def fusion_key(pair: Pair, aligned: bool) -> str:
    """Names two patterns by structure and shapes."""
    keys = " ".join(measurement_key(kernel.schedule.pattern, aligned) for kernel in pair)
    return sha256(keys.encode()).hexdigest()[:32]


def pair_of(works: Sequence[Work], numbers: Numbers) -> Pair:
    """Two kernels by their places."""
    one, two = (works[i] for i in numbers)
    assert isinstance(one, LoweredKernel)
    assert isinstance(two, LoweredKernel)
    return one, two


def _independent(works: Sequence[Work], rounds: Sequence[int], groups: Sequence[Sequence[int]], device: DeviceSpec
                 ) -> Iterator[Numbers]:
    """Pairs of launches of one kernel each that need nothing of each other."""
    single: dict[int, list[int]] = {}
    for i, *others in groups:
        if not others and _able(works[i], device):
            single.setdefault(rounds[i], []).append(i)
    for together in single.values():
        yield from combinations(together[:MOST_TOGETHER], 2)


def _able(work: Work, device: DeviceSpec) -> bool:
    """Whether a kernel's threads can be part of a block, and their number is known."""
    if device.block_barriers < TWO_BARRIERS or not isinstance(work, LoweredKernel) or work.schedule.groups:
        return False
    sizes = (work.program.grid, *(b.size for b in work.program.buffers))
    return not any(isinstance(n, SymbolicDim) for n in sizes) and not cannot_be_range(work.program)


def _resized(kernel: LoweredKernel) -> Iterator[LoweredKernel]:
    """The kernel in blocks of more threads, too: unless it writes over what it reads, which was decided for its own."""
    program = kernel.program
    yield kernel
    if any(b.shared or b.mode is Mode.UPDATE for b in program.buffers):
        return
    threads = 2 * program.threads
    while threads < MAX_THREADS:
        try:
            yield lower(with_threads(kernel.schedule, threads))
        except ScheduleError:
            return
        threads *= 2


def _partition(pair: Pair, resident: int, device: DeviceSpec) -> Partition | None:
    """None where a block has no room for both."""
    programs = [kernel.program for kernel in pair]
    if sum(p.threads for p in programs) > MAX_THREADS or any(p.threads % STEP for p in programs):
        return None
    return Partition(pair, resident) if sum(map(shared_bytes, programs)) <= device.shared_bytes else None


def _resident(free: Partition, device: DeviceSpec) -> int:
    """b0 of the paper's Fig. 6, judged by arrays: how many registers a compiler takes is not known before."""
    whole = free.program
    room = blocks_that_fit(whole.threads, 1, shared_bytes(whole), device)  # but for registers
    return min(room, *(resident_blocks(kernel.program, device) for kernel in free.kernels))


def _timed(partition: Partition, time: TimePrograms) -> float | None:
    """Microseconds; None of one that cannot be built or timed."""
    try:
        [us] = time([partition.program])
    except BuildError:
        return None
    return us if math.isfinite(us) and us > 0 else None


def _texts(pair: Pair) -> tuple[str, str]:
    one, two = map(text_of, pair)
    return one, two
