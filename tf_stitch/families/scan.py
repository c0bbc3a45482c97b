"""Running sums: one thread walks one row."""

from __future__ import annotations

from collections.abc import Iterator

from tf_stitch.device.spec import DeviceSpec
from tf_stitch.families.candidates import powers
from tf_stitch.families.family import GRID, STEPS, KernelFamily, Request, Slot, Tilings, by_threads, fixed, mapped
from tf_stitch.ir.symbolic_dims import ceil_div
from tf_stitch.lowering.scan import lower_scan
from tf_stitch.schedule.kernel_schedule import KernelSchedule
from tf_stitch.schedule.rules.scan import NAME, propose_scan
from tf_stitch.schedule.templates import LevelKind


def _retile(schedule: KernelSchedule, request: Request, device: DeviceSpec) -> KernelSchedule:
    threads = request.extent("threads", schedule.mapping.threads)
    return mapped(schedule, threads=threads, rows_per_block=threads, grid=ceil_div(schedule.domain.rows, threads))


def _candidates(schedule: KernelSchedule, device: DeviceSpec) -> Iterator[str]:
    for block in powers(device.warp, 256):
        yield f"*[GRID-CTA_{block},THREAD];"


_BLOCKS = Tilings(((GRID, Slot(LevelKind.CTA, "threads", always=True)), (STEPS,)), _retile, _candidates)
_TASKS = Tilings(((GRID,), (STEPS,)), fixed)

SCAN = KernelFamily(NAME, propose_scan, lower_scan, by_threads(_BLOCKS, _TASKS))
