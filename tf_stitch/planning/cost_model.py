"""Predicted time of a kernel (F6 by model): a roofline over a device profile.

Memory, arithmetic and waiting overlap for the most part: the longest counts, and a tenth of the rest (compare XLA's
`GpuPerformanceModel`, which adds compute and memory times and takes off 95 % of the smaller). Both parts were chosen on
the kernels of benchmarks/cost_model_h200.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tf_stitch.device.kernel_numbers import MatmulNumbers
from tf_stitch.device.profile import DeviceProfile, interpolate
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import ScheduleError
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.op_table import OP_TABLE
from tf_stitch.kernel_ir.cost import INLINE_CYCLES
from tf_stitch.kernel_ir.count_work import count_work
from tf_stitch.kernel_ir.matmul import pair_turn_us
from tf_stitch.kernel_ir.moved_bytes import moved_bytes
from tf_stitch.kernel_ir.nodes import GridBarrier, GridLoop, GroupBarrier, Program
from tf_stitch.kernel_ir.occupancy import BASE_REGISTERS, blocks_that_fit, resident_together
from tf_stitch.kernel_ir.side_by_side import grid_of
from tf_stitch.kernel_ir.verifier import buffers_touched
from tf_stitch.kernel_ir.work import SECTOR_BYTES, Op, Work
from tf_stitch.planning.pattern import Pattern

TimeOf: TypeAlias = Callable[[Pattern], float | None]
"""The interface of both evaluations (this one and `measured_cost`): microseconds of a pattern as one kernel; None if
no kernel family takes it."""

@dataclass(frozen=True)
class Prediction:
    """Microseconds of a kernel and what they are made of.

    Attributes:
        launch: what nothing else hides behind.
        memory: moving its bytes; compute: its arithmetic; wait: chains of loads and barriers that nothing hides.
        nbytes: bytes moved.
        overlap: part of the shorter times that hides behind the longest.
    """

    launch: float
    memory: float
    compute: float
    wait: float
    nbytes: int
    overlap: float

    @property
    def us(self) -> float:
        parts = (self.memory, self.compute, self.wait)
        longest = max(parts)
        return self.launch + longest + (1 - self.overlap) * (sum(parts) - longest)


@dataclass(frozen=True)
class ModelCost:
    """Predicted microseconds of a pattern.

    Attributes:
        program_of: schedules and lowers a pattern, or raises ScheduleError.
        footprint: bytes that a run of the whole region reads and writes: what a kernel reads is no warmer than that.
    """

    program_of: Callable[[Pattern], Program]
    device: DeviceSpec
    footprint: int = 0

    def __call__(self, pattern: Pattern) -> float | None:
        try:
            return predict_us(self.program_of(pattern), self.device, self.footprint)
        except ScheduleError:
            return None


def predict_us(program: Program, device: DeviceSpec, footprint: int = 0) -> float:
    """Microseconds of one launch."""
    return predict(program, device, footprint).us


def predict(program: Program, device: DeviceSpec, footprint: int = 0) -> Prediction:
    """The time of one launch, its memory as warm as if `footprint` bytes, or what it moves itself, were swept again and
    again."""
    if not program.grid:  # no elements: nothing is launched
        return Prediction(0.0, 0.0, 0.0, 0.0, 0, 0.0)
    if program.looped:
        return _phases(program, device, footprint)
    if program.partitioned:
        return _ranges(program, device, footprint)
    work = count_work(program)
    nbytes = moved_bytes(program, work)
    rate = interpolate(device.profile.bandwidth, nbytes)
    if footprint > nbytes:  # no warmer than what all that leaves; no faster than so few bytes can be moved
        rate = min(rate, interpolate(device.profile.bandwidth, footprint))
    if not device.simt:
        return _tasks(program, work, nbytes, rate, device)
    room = _Room(program.grid, _resident_blocks(program, work, device))
    return _blocks(program, work, nbytes, rate, room, device)


def predict_together(programs: Sequence[Program], device: DeviceSpec) -> Prediction:
    """The time of one launch of programs side by side on a GPU, none of which is `alone`: their blocks share
    processors, each with the shared memory and the registers of the one that takes most."""
    works = [count_work(program) for program in programs]
    sizes = [moved_bytes(program, work) for program, work in zip(programs, works, strict=True)]
    rate = interpolate(device.profile.bandwidth, sum(sizes))
    room = _Room(grid_of(programs), resident_together(programs, device))
    parts = [_blocks(program, work, nbytes, rate, room, device)
             for program, work, nbytes in zip(programs, works, sizes, strict=True)]
    return Prediction(max(p.launch for p in parts), sum(p.memory for p in parts), sum(p.compute for p in parts),
                      max(p.wait for p in parts), sum(sizes), min(p.overlap for p in parts))


@dataclass(frozen=True)
class _Room:
    """What a program's blocks find on a GPU.

    Attributes:
        blocks: of the launch, others' among them.
        resident: of them on a processor at once.
    """

    blocks: int
    resident: int


def _phases(program: Program, device: DeviceSpec, footprint: int) -> Prediction:
    """Phases one after the other, a grid barrier between them; what two neighbours of opposite directions touch and
    the cache holds is not read from memory again."""
    parts = [predict(phase, device, footprint) for phase in program.phases()]
    barriers: float = sum(isinstance(s, GridBarrier) for s in program.body)
    loops = [s for s in program.body if isinstance(s, GridLoop)]
    touched = [set[str]().union(*buffers_touched(loop.body)) for loop in loops]
    sizes = {b.name: b.size * b.dtype.size for b in program.buffers}
    kept = 0.0
    for i, loop in enumerate(loops):
        again = sum(sizes[name] for name in touched[i] & set[str]().union(*touched[:i]))
        if loop.backwards:
            kept += min(again, device.profile.cache_bytes * device.profile.kernels.cache_kept)
    bandwidth = device.profile.bandwidth
    saved = _us(kept, bandwidth[-1][1]) - _us(kept, max(rate for _, rate in bandwidth))
    # Phases do not overlap: what each takes is what counts.
    total = -saved
    for part in parts:
        far = program.cooperative and part.nbytes > device.profile.cache_bytes
        total += (part.us - part.launch) * (device.profile.kernels.sweep_loss if far else 1.0)
    for loop in loops:  # while the blocks of one group wait, those of another work
        cross_block_reductions = sum(isinstance(s, GroupBarrier) for s in loop.body)
        barriers += cross_block_reductions * loop.blocks / program.grid / max(program.resident, 1)
    wait = barriers * interpolate(device.profile.barrier, program.grid)
    return Prediction(device.profile.launch_us, total, 0.0, wait, sum(part.nbytes for part in parts), overlap=0.0)


def _ranges(program: Program, device: DeviceSpec, footprint: int) -> Prediction:
    """Thread ranges side by side: they take turns at memory and at issue slots, and wait at the same time."""
    parts = [predict(phase, device, footprint) for phase in program.phases()]
    return Prediction(device.profile.launch_us, sum(p.memory for p in parts), sum(p.compute for p in parts),
                      max(p.wait for p in parts), sum(p.nbytes for p in parts), max(p.overlap for p in parts))


def _blocks(program: Program, work: Work, nbytes: int, gbps: float, room: _Room, device: DeviceSpec) -> Prediction:
    profile = device.profile
    kernels, matmuls = profile.kernels, profile.matmul_kernels
    share = math.ceil(room.blocks / device.processors)  # blocks of the busiest processor
    uneven = share * device.processors / room.blocks
    memory = max(_us(nbytes, gbps), _cache_us(program, work, device))
    memory *= uneven if share > 1 else 1.0
    ops = _ops_ns(work.scalar, profile) + _ops_ns(work.vector, profile)
    ops += (work.elements + 2 * work.shuffles) / profile.rate("float32", OpKind.ADD.value, 1)
    threads = program.grid * max(program.threads, device.warp)
    together = min(room.resident, share) * max(program.threads, device.warp)
    independent = together * max(work.together / kernels.usual_together, 1.0)
    compute = threads * ops * 1e-3 * uneven / min(1.0, independent / kernels.saturating_threads)
    lines = threads / device.warp * work.lines
    near = lines * kernels.line_additions / profile.rate(DType.F32.value, OpKind.ADD.value, 1)
    compute = max(compute, near * 1e-3 * uneven)
    multiply_adds = work.multiply_adds + work.warpgroup_multiply_adds / matmuls.warpgroup_times
    tensor_ns = multiply_adds / (matmuls.tensor_rate * device.processors)
    compute += threads * tensor_ns * 1e-3 * uneven / min(1.0, together / matmuls.tensor_threads)
    waves = math.ceil(room.blocks / (room.resident * device.processors))
    latency = interpolate(profile.latency, nbytes)
    wait = sum(times * interpolate(profile.reduction, width) for width, times in work.reductions.items())
    wait += work.cross_block_reductions * kernels.cluster_us
    alone_us, beside_us = _matmul_us(work, matmuls)
    wait = waves * (work.rounds * latency + wait) + (waves - 1) * profile.wave_us + beside_us
    alike = waves == 1 and not work.async_copies
    overlap = kernels.turn_overlap if work.in_turn else kernels.lone_overlap if alike else kernels.overlap
    return Prediction(profile.launch_us + alone_us, memory, compute, wait, nbytes, overlap)


def _matmul_us(work: Work, matmuls: MatmulNumbers) -> tuple[float, float]:
    """Microseconds of warpgroups in which nothing else happens, and of those by threads that do nothing of the rest."""
    alone, beside = work.warpgroup_starts * matmuls.block_start_us, 0.0
    for shape, tiling, turns in work.paired:
        turn = pair_turn_us(shape, tiling, matmuls)
        alone += matmuls.pair_start_us + turn
        beside += (turns - 1) * turn
    return alone, beside


def resident_blocks(program: Program, device: DeviceSpec) -> int:
    """Blocks that a streaming multiprocessor holds at once, judged by the program's arrays."""
    return _resident_blocks(program, count_work(program), device)


def _resident_blocks(program: Program, work: Work, device: DeviceSpec) -> int:
    if program.resident:
        return program.resident
    return blocks_that_fit(program.threads, BASE_REGISTERS + work.registers, work.shared_bytes, device)


def _cache_us(program: Program, work: Work, device: DeviceSpec) -> float:
    """Sectors between the processors and the last cache, each warp's apart; scattered elements at the gather rate."""
    profile = device.profile
    sizes = {b.name: (b.size, b.dtype.size) for b in program.parameters}
    threads = program.grid * program.threads
    sectors = gathered = 0.0
    for a in work.accesses:
        elements, size = sizes[a.buffer]
        if a.stride is None:
            gathered += threads * a.distinct / (interpolate(profile.gather, elements * size) * 1e3)
            continue
        step = min(max(a.stride * size, a.width * size if a.stride else 1), max(SECTOR_BYTES, a.width * size))
        accessed = min(threads * a.distinct, elements) if a.store else threads * a.distinct
        traffic = accessed / a.width * step
        near = elements * size <= profile.shared_bytes / 2  # stays in the cache of each processor
        sectors += min(traffic, device.processors * elements * size) if near else traffic
    best = max(rate for _, rate in profile.bandwidth)
    return gathered + _us(sectors, best)


def _tasks(program: Program, work: Work, nbytes: int, gbps: float, device: DeviceSpec) -> Prediction:
    profile = device.profile
    launch = profile.launch_us
    near = program.grid * _near_bytes(program, work) / interpolate(profile.bandwidth, profile.kernels.near_bytes) / 1e3
    memory = max(_us(nbytes, gbps), near) + _strided_us(program, work, profile)
    ops = _ops_ns(work.vector, profile) + _ops_ns(work.scalar, profile, "scalar ")
    compute = program.grid * (ops * 1e-3 + work.loops * profile.loop_us)
    used = min(device.processors, program.grid)
    if used == 1 or program.grid * program.cost < INLINE_CYCLES:
        return Prediction(launch, memory, compute, 0.0, nbytes, profile.kernels.overlap)
    shared = profile.all_cores if nbytes > profile.cache_bytes else used
    return Prediction(launch + profile.handover_us, memory / min(shared, used), compute / used, 0.0, nbytes,
                      profile.kernels.overlap)


def _near_bytes(program: Program, work: Work) -> float:
    """Bytes of one block's loads and stores, which the first cache serves, again and again."""
    sizes = {b.name: b.dtype.size for b in program.parameters}
    return 4 * work.elements + sum(sizes[a.buffer] * a.count for a in work.accesses)


def _strided_us(program: Program, work: Work, profile: DeviceProfile) -> float:
    """Accesses of vector loops whose neighbours are apart in memory."""
    sizes = {b.name: b.size * b.dtype.size for b in program.parameters}
    return sum(program.grid * a.count / (interpolate(profile.gather, sizes[a.buffer]) * 1e3)
               for a in work.accesses if a.stride not in (0, 1))


def _ops_ns(ops: Mapping[Op, float], profile: DeviceProfile, table: str = "") -> float:
    """Nanoseconds of a thread's ops if the whole device did nothing else."""
    return sum(count / profile.rate(table + dtype.value, kind.value, OP_TABLE[kind].cost)
               for (dtype, kind), count in ops.items())


def _us(nbytes: float, gbps: float) -> float:
    return nbytes / gbps / 1e3
