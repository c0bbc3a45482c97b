"""Finds the fastest partition of a block's threads by timing (HFuse, Fig. 6), and times it against launches apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import TypeAlias

from tf_stitch.compiler.template_tuner import BATCH, ROUNDS, TimePrograms, sampled, text_of
from tf_stitch.compiler.thread_partitions import Kernels, Partition, bounded, partitions
from tf_stitch.device.spec import DeviceSpec
from tf_stitch.errors import BuildError
from tf_stitch.kernel_ir.nodes import Program
from tf_stitch.planning.cost_model import predict_us
from tf_stitch.planning.measured_fusions import MeasuredFusion

MOST_TIMED = 16
"""Partitions of threads that are timed, each without and with a bound on registers: a pair has 28 at most, three
kernels 56."""

TimeApart: TypeAlias = Callable[[Sequence[Program]], float]
"""Microseconds of programs in launches of their own, the faster of one behind the other and at one time."""


def measure_fusion(kernels: Kernels, device: DeviceSpec, time: TimePrograms, apart: TimeApart,
                   go_on: Callable[[], bool] = lambda: True) -> MeasuredFusion | None:
    """The fastest partition, against a launch for each kernel once more, in turns.

    Args:
        go_on: whether time is left; asked between batches.

    Returns:
        None if time ran out, or nothing could be timed.

    Raises:
        BuildError: the launches cannot be built.
    """
    tried = partitions_to_time(kernels, device)
    times: list[float] = []
    for first in range(0, len(tried), BATCH):
        if not go_on():
            return None
        times += _times([partition.program for partition in tried[first:first + BATCH]], time)
    timed = [(us, i) for i, us in enumerate(times) if math.isfinite(us) and us > 0]
    if not timed:
        return None
    best = tried[min(timed)[1]]
    separate = [kernel.program for kernel in kernels]
    turns = [(apart(separate), *_times([best.program], time)) for _ in range(ROUNDS)]
    apart_us, together_us = (median(us) for us in zip(*turns, strict=True))
    if not math.isfinite(apart_us + together_us):
        return None
    return MeasuredFusion(tuple(map(text_of, kernels)), best.threads, best.resident, round(apart_us, 3),
                          round(together_us, 3), len(timed))


def partitions_to_time(kernels: Kernels, device: DeviceSpec) -> list[Partition]:
    """Half of them those that the model thinks fastest; each is followed by the same with a bound on registers, where
    that bounds anything."""
    ranked = sorted(partitions(kernels, device), key=lambda partition: predict_us(partition.program, device))
    free = sampled(ranked, MOST_TIMED, MOST_TIMED // 2)
    return [one for partition in free for one in (partition, bounded(partition, device)) if one is not None]


def _times(programs: Sequence[Program], time: TimePrograms) -> list[float]:
    """Microseconds; NaN of what cannot be built or timed. Where one breaks its batch, each is timed by itself."""
    try:
        return time(programs)
    except BuildError:
        if len(programs) == 1:
            return [math.nan]
        return [us for program in programs for us in _times([program], time)]
