"""Measures one device: builds the kernels of `kernels`, times them, and makes a profile of the times."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tf_stitch.device.profile import VERSION
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.op_table import OP_TABLE
from tools.calibrate import kernels as c

Timer = Callable[[Sequence[Node]], list[float]]
"""Microseconds of the kernel of each node."""

SMALLEST_RATIO = 0.25
"""An op that the hardware does together with its neighbour (a product in a fused multiply-add) costs that much of an
addition at least."""


@dataclass(frozen=True)
class Plan:
    """Sizes to measure at.

    Attributes:
        streams, tables: bytes.
        gathered: elements of one gather.
        elements: of an op chain.
        counts: ops of the shorter chain of a cheap op and of a dear one; the longer is three times as long.
    """

    streams: tuple[int, ...]
    tables: tuple[int, ...]
    gathered: int
    elements: int
    counts: tuple[int, int]


PLANS = {
    "cuda": Plan(tuple(1 << e for e in (12, 14, 16, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28, 30, 31)),
                 (1 << 16, 1 << 20, 1 << 23, 1 << 25, 1 << 28), 1 << 22, 1 << 20, (64, 8)),
    "cpu": Plan(tuple(1 << e for e in range(10, 29)), (1 << 13, 1 << 16, 1 << 19, 1 << 22, 1 << 25, 1 << 27), 1 << 16,
                2048, (4, 4)),
}
ODD_ELEMENTS, BLOCK, RESIDENT = (1 << 21) + 1, 256, 2048
"""Elements that no vector access divides; threads of an elementwise block, and of a streaming multiprocessor."""
DEAR = 5
"""Rough cycles from which an op counts as dear."""


def common(plan: Plan, timer: Timer) -> dict[str, Any]:
    """launch_us, bandwidth, gather and rates."""
    launch = timer([c.empty()])[0]
    streams = timer([c.stream(n) for n in plan.streams])
    gathers = timer([c.gather(plan.gathered, n // 4) for n in plan.tables])
    return {
        "launch_us": launch,
        "bandwidth": [[n, n / _above(us, launch) / 1e3] for n, us in zip(plan.streams, streams, strict=True)],
        "gather": [[n, plan.gathered / _above(us, launch) / 1e3] for n, us in zip(plan.tables, gathers, strict=True)],
        "rates": {dtype.value: _rates(plan, dtype, ops, timer) for dtype, ops in c.MEASURED.items()},
    }


def _above(us: float, launch: float) -> float:
    """What a kernel takes beyond being launched."""
    return max(us - launch, 0.02 * us)


def marginal(short: float, long: float, few: int, many: int) -> float:
    """What one more of something takes, from the times of few and of many.

    A machine that was busy in one of both times would make it negative or more than their mean; it is between the mean
    and a tenth of it, and so positive."""
    return max(min((long - short) / (many - few), long / many), long / many / 10)


def _rates(plan: Plan, dtype: DType, ops: Sequence[K], timer: Timer, make: Callable[[c.Chain], Node] = c.chain
           ) -> dict[str, float]:  # fmt: skip
    """10^9 ops a second, from the difference between a long chain and a short one."""
    counts = {op: plan.counts[OP_TABLE[op].cost >= DEAR] for op in ops}
    specs = [c.Chain(dtype, op, counts[op] * times, plan.elements) for op in ops for times in (1, 3)]
    times = timer([make(spec) for spec in specs])
    slope = {op: marginal(times[2 * i], times[2 * i + 1], counts[op], 3 * counts[op]) / plan.elements
             for i, op in enumerate(ops)}  # fmt: skip
    add = slope[K.ADD] / 2  # the link itself: x + c, and the sum
    cost = {op: add if op is K.ADD else max(slope[op] - slope[K.ADD], SMALLEST_RATIO * add) for op in ops}
    if K.SELECT in cost:
        cost[K.SELECT] = max(cost[K.SELECT] / 2, SMALLEST_RATIO * add)  # the other half is the comparison
    return {op.value: 1e-3 / us for op, us in cost.items()}


def scalar_rates(plan: Plan, timer: Timer) -> dict[str, float]:
    """Rates in loops that compilers do not vectorise."""
    return _rates(plan, DType.F32, c.MEASURED[DType.F32], timer, c.arg_chain)


def reductions(timer: Timer, processors: int) -> list[list[float]]:
    """Threads of a row -> microseconds of one reduction of a chain of them, each block alone on its processor."""
    found = []
    for columns, threads in ((32, 8), (1024, 32), (8192, 256), (32768, 1024)):
        few, many = timer([c.phases(processors, columns, n) for n in (2, 10)])
        found.append([threads, max((many - few) / 8, 1e-3)])
    return found


def wave_us(timer: Timer, processors: int, launch: float, latency: float) -> float:
    """What each of many waves of small blocks takes beyond the latency of its loads."""
    elements = ODD_ELEMENTS
    waves = elements / (BLOCK * RESIDENT // BLOCK * processors)
    return max((timer([c.odd_stream(elements)])[0] - launch) / waves - latency, 0.0)


def reduction_rates(timer: Timer, elements: int) -> dict[str, float]:
    """10^9 elements a second that a vectorised loop reduces to one, in the first cache."""
    found = {}
    for kind in (K.SUM, K.MAX):
        short, long = timer([c.reduced_rows(1, n, kind) for n in (elements, 2 * elements)])
        found[kind.value] = 1e-3 * elements / max(long - short, 1e-6)
    return found


def multiply_add_rate(timer: Timer, sizes: tuple[int, int, int]) -> float:
    """10^9 multiplications with additions a second of a matmul in tasks."""
    [us] = timer([c.matmul(*sizes)])
    return 1e-3 * math.prod(sizes) / us


def loop_us(timer: Timer, elements: int) -> float:
    """Entering a vectorised loop: sums of short rows against the sum of one long row of as many elements."""
    rows = elements // 32
    short, long = timer([c.reduced_rows(rows, 32), c.reduced_rows(1, elements)])
    return max((short - long) / rows, 1e-4)


def all_cores(run: Callable[[], float], cores: int) -> float:
    """What cores together move more than one: `run` streams its own memory once, and gives the seconds it took."""
    run()
    alone = min(run() for _ in range(3))
    with ThreadPoolExecutor(cores) as pool:
        together = min(max(pool.map(lambda _: run(), range(cores))) for _ in range(5))
    return min(max(cores * alone / together, 1.0), float(cores))


def document(device: DeviceSpec, values: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a profile, numbers rounded to four digits."""
    values = {"handover_us": 0.0, "all_cores": 1.0, "latency": [], "reduction": [], "loop_us": 0.0, "wave_us": 0.0,
              "barrier": [], "numbers": {}, **values}
    return {"version": VERSION, "name": device.name, "target": device.target, "processors": device.processors,
            **{name: rounded(value) for name, value in values.items()}, "made": made}  # fmt: skip


def kept_numbers(before: dict[str, Any], where: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers that a profile has so far and that stay: those of the same hardware. Others follow from what is measured.

    Args:
        where: what is measured now.
    """
    same = all(before["made"].get(part) == where.get(part) for part in ("gpu", "cpu"))
    return dict(before["numbers"]) if same else {}


def rounded(value: Any) -> Any:
    """Numbers to four digits, in whatever holds them."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(v) for key, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list | tuple) else value
