"""Measures one device: builds the kernels of `kernels`, times them, and makes a profile of the times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from calibrating import kernels as c
from tf_stitch.device.profile import VERSION
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_kinds import OpKind as K
from tf_stitch.ir.op_table import OP_TABLE

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


def _rates(plan: Plan, dtype: DType, ops: Sequence[K], timer: Timer) -> dict[str, float]:
    """10^9 ops a second, from the difference between a long chain and a short one."""
    counts = {op: plan.counts[OP_TABLE[op].cost >= DEAR] for op in ops}
    specs = [c.Chain(dtype, op, counts[op] * times, plan.elements) for op in ops for times in (1, 3)]
    times = timer([c.chain(spec) for spec in specs])
    slope = {op: (times[2 * i + 1] - times[2 * i]) / (2 * counts[op] * plan.elements) for i, op in enumerate(ops)}
    add = slope[K.ADD] / 2  # the link itself: x + c, and the sum
    cost = {op: add if op is K.ADD else max(slope[op] - slope[K.ADD], SMALLEST_RATIO * add) for op in ops}
    if K.SELECT in cost:
        cost[K.SELECT] = max(cost[K.SELECT] / 2, SMALLEST_RATIO * add)  # the other half is the comparison
    return {op.value: 1e-3 / us for op, us in cost.items()}


def barrier_us(timer: Timer, processors: int) -> float:
    """One reduction of a chain of them, over rows that a block shares, each block alone on its processor."""
    few, many = timer([c.phases(processors, 8192, n) for n in (2, 10)])
    return max((many - few) / 8, 1e-3)


def scalar_factor(timer: Timer, elements: int) -> float:
    """How much longer additions take in a loop that is not vectorised."""
    vector = timer([c.chain(c.Chain(DType.F32, K.ADD, n, elements)) for n in (8, 24)])
    scalar = timer([c.arg_chain(elements, K.ADD, n) for n in (8, 24)])
    return max((scalar[1] - scalar[0]) / max(vector[1] - vector[0], 1e-6), 1.0)


def loop_us(timer: Timer, elements: int) -> float:
    """Entering a vectorised loop: sums of short rows against the sum of one long row of as many elements."""
    rows = elements // 32
    short, long = timer([c.row_sums(rows, 32), c.row_sums(1, elements)])
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
    values = {"handover_us": 0.0, "barrier_us": 0.0, "all_cores": 1.0, "latency": [], "scalar": 1.0, "loop_us": 0.0,
              **values}
    return {"version": VERSION, "name": device.name, "target": device.target, "processors": device.processors,
            **{name: _rounded(value) for name, value in values.items()}, "made": made}  # fmt: skip


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(v) for key, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, list | tuple) else value
