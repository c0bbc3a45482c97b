"""Templates that a pattern may have (FusionStitching, Algorithm 3: TemplatesGeneration).

What is varied: who shares a row (one thread, a few, a warp, a block, several blocks, a cluster of them), the threads of
a block, the elements of an access and how many a thread makes, and what stays in memory of the block. On a CPU a task
is one thread: there the sizes of tasks and what is kept are varied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.schedule.kernel_schedule import KernelSchedule, Rule
from tf_stitch.schedule.row_tiling import kept_values
from tf_stitch.schedule.rules.row_reduction import LONG_ROW, MAX_THREADS, SHARING_BLOCKS, SHARING_THREADS
from tf_stitch.schedule.rules.transpose import TILE
from tf_stitch.schedule.templates import Template, parse_template
from tf_stitch.schedule.tilings import on_gpu, op_labels

BLOCKS = (128, 256, 512, 1024)
"""Threads of a block that are tried."""
MOST_ELEMENTS = 64
"""Elements of a row that a thread may take without a loop."""
CHUNKS = tuple(1 << n for n in range(9, 18))
"""Elements of a CPU's task that are tried."""


def candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[Template]:
    """Templates for a schedule's pattern; some of them turn out to be impossible when they are applied."""
    makers = _GPU if on_gpu(schedule) else _CPU
    if schedule.rule in makers:
        yield from map(parse_template, dict.fromkeys(makers[schedule.rule](schedule, device)))


def _vectors(schedule: KernelSchedule) -> list[int]:
    """Widths of an access: the rule's, its half, and single elements."""
    widest = schedule.mapping.vector
    return sorted({widest, max(widest // 2, 1), 1}, reverse=True)


def _powers(first: int, last: int) -> Iterator[int]:
    n = first
    while n <= last:
        yield n
        n *= 2


def _rows(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    cols = schedule.domain.cols
    for vector in _vectors(schedule):
        chunks = ceil_div(cols, vector)
        for threads in _powers(1, min(MAX_THREADS, 2 * chunks - 1)):
            items = ceil_div(chunks, threads)
            if items * vector <= MOST_ELEMENTS:
                yield from _short_rows(threads, items, vector)
            if items > 1 and threads >= device.warp:
                yield from _looped_rows(schedule, threads, vector, device)
    if cols >= LONG_ROW:
        yield from _rows_of_several_blocks(schedule, device)
        yield from _rows_of_clusters(schedule, device)


def _short_rows(threads: int, items: int, vector: int) -> Iterator[str]:
    """Rows in registers."""
    for block in BLOCKS:
        for waves in (1, 2, 4) if items <= 2 else (1,):
            if block >= threads:
                rows = f"GRID-THREAD_{waves}-CTA_{block // threads}"
                yield f"*[{rows},THREAD_{items}-CTA_{threads}-THREAD_{vector}];"


def _looped_rows(schedule: KernelSchedule, threads: int, vector: int, device: DeviceSpec) -> Iterator[str]:
    """Rows that are gone through again in each phase, or kept in memory of the block."""
    for block in BLOCKS:
        if block >= threads:
            yield f"*[GRID-CTA_{block // threads},THREAD-CTA_{threads}-THREAD_{vector}];"
    if threads >= BLOCKS[0]:
        yield from _keeping(schedule, f"GRID,THREAD-CTA_{threads}-THREAD_{vector}", device)


def _rows_of_several_blocks(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    vector, (rows, cols) = schedule.mapping.vector, (schedule.domain.rows, schedule.domain.cols)
    for threads in BLOCKS[1:]:
        slots = max(1, SHARING_BLOCKS * SHARING_THREADS // threads) * device.processors
        for blocks in sorted({*_powers(2, slots), max(slots // rows, 2), device.processors}):
            items = ceil_div(ceil_div(cols, vector), threads * blocks)
            if ceil_div(cols, vector) < threads * blocks // 2:
                break
            across = f"GRID_{blocks}-CTA_{threads}-THREAD_{vector}"
            if items * vector <= MOST_ELEMENTS:
                yield f"*[GRID,THREAD_{items}-{across}];"
            yield from _keeping(schedule, f"GRID,THREAD-{across}", device)


def _rows_of_clusters(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    vector, cols = schedule.mapping.vector, schedule.domain.cols
    for blocks in _powers(2, device.largest_cluster):
        for threads in BLOCKS[1:]:
            items = ceil_div(ceil_div(cols, vector), threads * blocks)
            across = f"CLUSTER_{blocks}-CTA_{threads}-THREAD_{vector}"
            if items * vector <= MOST_ELEMENTS:
                yield f"*[GRID,THREAD_{items}-{across}];"
            in_registers = ceil_div(MOST_ELEMENTS // 2, vector) - 1
            if items > in_registers + 1:  # the rest in shared memory
                yield f"*[GRID,THREAD_{in_registers}-THREAD_{items - in_registers}-{across}];"
            yield from _keeping(schedule, f"GRID,THREAD-{across}", device)


def _keeping(schedule: KernelSchedule, tiling: str, device: DeviceSpec) -> Iterator[str]:
    """The tiling with all values that a later phase needs in memory of the block, with those alone that are read or
    that are computed, and with none."""
    labels, kept = op_labels(schedule.pattern), kept_values(schedule, device)
    read = [n for n in kept if not schedule.pattern.holds(n)]
    computed = [n for n in kept if schedule.pattern.holds(n)]
    for nodes in (kept, read, computed, []):
        others = "".join(f" {labels[n]}[{tiling}]S;" for n in nodes)
        yield f"{labels[schedule.dominant]}[{tiling}];{others}"


def _mixed(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    for vector in _vectors(schedule):
        for threads in _powers(device.warp, MAX_THREADS):
            items = ceil_div(schedule.domain.cols, threads * vector)
            if items * vector <= MOST_ELEMENTS:
                yield f"*[GRID-THREAD_{schedule.mapping.rows_per_block},THREAD_{items}-CTA_{threads}-THREAD_{vector}];"


def _columns(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    inner = schedule.dominant.operands[0].type.dims[-1]
    outer = "GRID," if schedule.domain.rows > inner else ""
    for vector in _vectors(schedule):
        for across in _powers(8, min(256, 2 * ceil_div(inner, vector) - 1)):
            for block in BLOCKS:
                if across <= block:
                    yield f"*[{outer}THREAD-CTA_{block // across},GRID-CTA_{across}-THREAD_{vector}];"


def _elements(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    for vector in _vectors(schedule):
        for items in (1, 2, 4, 8):
            for block in BLOCKS:
                yield f"*[GRID-THREAD_{items}-CTA_{block}-THREAD_{vector}];"


def _transposes(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    outer = "GRID," if schedule.dominant.type.rank > 2 else ""
    for down in (4, 8, 16, 32):
        yield f"*[{outer}GRID-THREAD-CTA_{down},GRID-CTA_{TILE}]S;"


def _scans(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    for block in _powers(device.warp, 256):
        yield f"*[GRID-CTA_{block},THREAD];"


def _cpu_rows(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    yield from _keeping(schedule, "GRID,THREAD", device)


def _cpu_columns(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    inner = schedule.dominant.operands[0].type.dims[-1]
    outer = "GRID," if schedule.domain.rows > inner else ""
    for tile in _powers(32, min(4096, 2 * inner - 1)):
        yield f"*[{outer}THREAD,GRID-THREAD_{tile}];"


def _cpu_elements(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    if schedule.domain.rows == 1:
        yield from (f"*[GRID-THREAD_{chunk}];" for chunk in CHUNKS if chunk < 2 * schedule.domain.cols)


_Maker = Callable[[KernelSchedule, DeviceSpec], Iterator[str]]
_GPU: Mapping[Rule, _Maker] = {
    Rule.ROW: _rows, Rule.MIXED: _mixed, Rule.COLUMN: _columns, Rule.ELEMENTWISE: _elements,
    Rule.TRANSPOSE: _transposes, Rule.SCAN: _scans}
_CPU: Mapping[Rule, _Maker] = {Rule.ROW: _cpu_rows, Rule.COLUMN: _cpu_columns, Rule.ELEMENTWISE: _cpu_elements}
