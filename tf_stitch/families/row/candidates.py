"""Templates of row kernels. What is varied: what shares a row (one thread, a few, a warp, a block, several blocks, a
cluster of them), the threads of a block, the elements of an access and how many a thread makes, and what stays in
memory of the block."""

from __future__ import annotations

from collections.abc import Iterator

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.families.candidates import BLOCKS, MOST_ELEMENTS, powers, vectors
from tf_stitch.families.row.tiling import stageable_values
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.schedule.kernel_schedule import MAX_THREADS, KernelSchedule
from tf_stitch.schedule.op_labels import op_labels
from tf_stitch.schedule.shared_rows import LONG_ROW, SHARING_BLOCKS, SHARING_THREADS


def row_candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    """Candidates for rows that blocks of threads take."""
    cols = schedule.domain.cols
    for vector in vectors(schedule):
        chunks = ceil_div(cols, vector)
        for threads in powers(1, min(MAX_THREADS, 2 * chunks - 1)):
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
    """Rows that are gone through again in each phase, or staged in memory of the block."""
    for block in BLOCKS:
        if block >= threads:
            yield f"*[GRID-CTA_{block // threads},THREAD-CTA_{threads}-THREAD_{vector}];"
    if threads >= BLOCKS[0]:
        yield from _keeping(schedule, f"GRID,THREAD-CTA_{threads}-THREAD_{vector}", device)


def _rows_of_several_blocks(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    vector, (rows, cols) = schedule.mapping.vector, (schedule.domain.rows, schedule.domain.cols)
    for threads in BLOCKS[1:]:
        slots = max(1, SHARING_BLOCKS * SHARING_THREADS // threads) * device.processors
        for blocks in sorted({*powers(2, slots), max(slots // rows, 2), device.processors}):
            items = ceil_div(ceil_div(cols, vector), threads * blocks)
            if ceil_div(cols, vector) < threads * blocks // 2:
                break
            across = f"GRID_{blocks}-CTA_{threads}-THREAD_{vector}"
            if items * vector <= MOST_ELEMENTS:
                yield f"*[GRID,THREAD_{items}-{across}];"
            yield from _keeping(schedule, f"GRID,THREAD-{across}", device)


def _rows_of_clusters(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    vector, cols = schedule.mapping.vector, schedule.domain.cols
    for blocks in powers(2, device.largest_cluster):
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
    labels, to_stage = op_labels(schedule.pattern), stageable_values(schedule, device)
    read = [n for n in to_stage if not schedule.pattern.holds(n)]
    computed = [n for n in to_stage if schedule.pattern.holds(n)]
    for nodes in (to_stage, read, computed, []):
        others = "".join(f" {labels[n]}[{tiling}]S;" for n in nodes)
        yield f"{labels[schedule.dominant]}[{tiling}];{others}"


def task_candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    """Candidates for rows that a thread takes alone."""
    yield from _keeping(schedule, "GRID,THREAD", device)
